"""HTTP at the doors, without I/O: connections, requests, and who may ask what."""
