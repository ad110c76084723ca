"""`router demo`: a core and two edges on this machine are killed while messages flow, and what arrived is counted."""
