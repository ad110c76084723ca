"""The local side of a node of Cardano's Decentralized Message Queue (CIP-137)."""
