"""Nodes and apps as processes, for the demo, the bench and the tests."""
