"""The auditor's signature over what an audit wrote."""
