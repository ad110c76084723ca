"""Discovery: how nodes find each other."""
