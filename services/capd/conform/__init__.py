"""Whether a Nexa node keeps to the protocol: checks over real connections."""
