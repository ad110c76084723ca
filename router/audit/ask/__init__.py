"""`router ask`: questions about the tables of an audit, each one file of SQL."""
