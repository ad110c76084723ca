"""Neighbours on the local network, found by signed datagrams: the decisions about them (D17, D18, D19)."""
