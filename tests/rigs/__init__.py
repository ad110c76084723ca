"""What several tests run their subject in."""
