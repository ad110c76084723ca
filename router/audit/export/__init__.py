"""Event logs to give away: under pseudonyms, and still fit for an audit."""
