"""What decides in a CAPD node: bytes and time in, values out."""
