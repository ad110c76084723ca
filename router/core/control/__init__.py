"""The messages that a router says and hears for itself: of members, of its services, of its operator, of guests."""
