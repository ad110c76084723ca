"""Messages on an app's way out and in, until each is settled (pure)."""
