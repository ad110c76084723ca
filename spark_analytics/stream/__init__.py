"""The audit of logs that grow: its state, and the tables of each batch."""
