"""Publish-subscribe: topics that reach the subscribers of every node (specification, "Publish-Subscribe Service")."""

ROLE = "overlay"
