"""The settings of a node: configuration, home and keys."""
