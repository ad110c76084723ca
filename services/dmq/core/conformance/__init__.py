"""The checks by which a node's conformance is judged, at its doors for clients and for other nodes."""
