"""Check over real connections whether a Nexa node keeps to the protocol."""
