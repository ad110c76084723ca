"""Discovery: how nodes find each other."""

ROLE = "discovery"
