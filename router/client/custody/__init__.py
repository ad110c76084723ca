"""What an app has handed in and what it was handed, until each is settled (pure)."""
