"""What makes decisions so on machines: the protocol, and one enactor for each kind of machines."""
