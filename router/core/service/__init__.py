"""Decisions that several services share: pure, with time and randomness as arguments."""
