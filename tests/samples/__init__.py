"""Made values for tests."""
