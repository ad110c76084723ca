"""Snapshots of a home: taken beside a running node, checked, and put back elsewhere."""
