"""The demo of what the web side does without a browser."""
