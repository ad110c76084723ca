"""Chaos: a fleet of real nodes is killed, frozen, cut, filled and skewed; a ledger apart says what was lost."""
