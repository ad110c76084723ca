"""Neighbours on the local network, found by signed datagrams: what is decided about them (D17, D18, D19)."""
