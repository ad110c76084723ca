"""What an operator sees of a running node, for every view of it: its answers as values, the last hour, forecasts, and
whether all is well."""
