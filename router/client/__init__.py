"""The public API for apps: `connect`, and the `Node` that it returns."""

from router.client.node import Node, connect

__all__ = ["Node", "connect"]
