"""The local side of a node of the Decentralized Message Queue (CIP-137): so far its pure half, in `core`."""
