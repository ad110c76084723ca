"""For all tests: hypothesis looks for wrong values, not for slow ones; machines are noisy."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
