"""Gold: one file for each table, a function from the layout of `silver.compact` (and tables before it) to the table."""
