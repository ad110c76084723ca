"""The running node: its parts, the actor that routes, connections, dialling, verifiers."""
