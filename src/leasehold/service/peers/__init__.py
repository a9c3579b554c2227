"""Peer gateways: who they are, the lines to them, and what we tell them of ourselves."""
