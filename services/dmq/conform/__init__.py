"""The conformance checker: plays a client to a node, or a node to a client, and judges the other end's messages."""
