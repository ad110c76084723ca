"""The durable states of services and of apps: an LMDB environment each, whose secrets can be forgotten."""
