"""The pure core: bytes in, decisions out. No socket, clock, thread, disk, random number or log."""
