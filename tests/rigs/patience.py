"""The time that a test waits before it fails."""

from __future__ import annotations

HANG_S = 300.0
"""Seconds after which a test's wait has failed; far more than a slow machine needs."""
