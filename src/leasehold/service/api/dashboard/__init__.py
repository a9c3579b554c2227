"""The dashboard at the address of a gateway: pages rendered here, which need a script only to stay up to date."""
