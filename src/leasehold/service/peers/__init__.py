"""Peer gateways: their terms, the lines to them, and the status sent to them."""
