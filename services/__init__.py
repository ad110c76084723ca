"""Services: actors with addresses, which know only words and the public API."""
