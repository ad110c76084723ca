"""`router demo`: a core and two edges on this machine, killed while messages flow; what arrived is counted."""
