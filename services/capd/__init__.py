"""The pool of Counterparty and Protocol Discovery (CAPD): messages paid for by work, found by their first bytes."""

RUN = "apart"
"""A process of its own by default: a million rows and strangers' bytes do not belong on the router's loop."""
