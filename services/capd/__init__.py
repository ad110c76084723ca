"""The pool of Counterparty and Protocol Discovery (CAPD): messages paid for by work, found by their first bytes."""
