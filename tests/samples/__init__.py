"""Made-up values for tests."""
