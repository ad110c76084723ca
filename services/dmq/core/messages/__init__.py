"""The signed messages of the queue: their encodings, the keys that sign them, and the checks of them (CIP-137)."""
