"""What `router capd bench` measures, and with what it compares."""
