"""Decisions that services of several roles share: pure, with time and randomness as arguments."""
