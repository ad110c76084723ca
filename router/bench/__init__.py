"""`router bench`: throughput, latency, loss and memory of this node, as ratios to bare signature verification."""
