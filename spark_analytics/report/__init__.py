"""From the small tables of an audit to its summary, its sentences and its page."""
