"""`router doctor`: find what is wrong with this node, its machine and its network, and how to mend it."""
