"""The key-addressed router: connect an app to its node, join groups by key, publish and receive."""
