"""What makes decisions so on machines: the protocol, and one driver for each kind of machines."""
