"""The conformance checker: plays a client to a node, or a node to a client, and judges what is said."""
