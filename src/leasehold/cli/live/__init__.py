"""What the commands that speak to a gateway share: how they reach it, and how leases and sites look."""
