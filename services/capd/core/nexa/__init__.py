"""What Nexa nodes say to each other, as far as it concerns CAPD: bytes in, values out."""
