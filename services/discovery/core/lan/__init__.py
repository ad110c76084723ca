"""Neighbours on the local network, found by signed datagrams: the decisions about them (R-D17, R-D18, R-D19)."""
