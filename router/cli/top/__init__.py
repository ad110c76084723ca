"""`router top`: the running node, live in a terminal."""
