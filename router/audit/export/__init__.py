"""Event logs to give away: under pseudonyms, and still an audit."""
