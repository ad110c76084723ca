"""How long a test waits for what must come."""

from __future__ import annotations

HANG_S = 300.0
"""A wait of a test that takes this long has hung; a machine that is slow passes, only later."""
