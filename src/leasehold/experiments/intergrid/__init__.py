"""Section 5 of Salehi, Javadi, Buyya: QoS and preemption aware scheduling in federated Grids (JPDC 2012)."""
