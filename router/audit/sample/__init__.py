"""A made-up fleet's event logs, and the expected findings of an audit."""
