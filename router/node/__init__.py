"""The running node: the actor that routes, connections, dialling, verifiers, services."""
