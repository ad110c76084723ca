"""The decisions of a CAPD pool: bytes and time in, values out."""
