"""The pool of Counterparty and Protocol Discovery (CAPD): messages paid for by work, found by their first bytes."""

RUN = "apart"
"""A million columns and strangers' bytes do not belong on the router's loop."""
