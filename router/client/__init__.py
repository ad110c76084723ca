"""The public API for apps: `connect`, and what it gives."""

from router.client.node import Node, connect

__all__ = ["Node", "connect"]
