"""The operator's page: whether all is well, what to do, and pictures of the last hour."""
