"""`router service`: the node as a service of systemd, of the user or of the machine."""
