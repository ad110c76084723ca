"""The protocol between Nexa nodes, as far as it concerns CAPD: bytes in, values out."""
