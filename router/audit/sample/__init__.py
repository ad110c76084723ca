"""A made-up fleet's event logs, and what an audit of them must find."""
