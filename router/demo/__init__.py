"""`router demo`: a core and two edges on this machine, killed in the middle of their work; what arrived is counted."""
