"""What one who asks over HTTP may take, and all together."""

from __future__ import annotations

from msgspec import Struct

CALLERS_MAX = 10_000
"""Callers whose shares are remembered; of the one that asked least recently a full share is assumed."""


class OverHttpLimits(Struct, frozen=True, kw_only=True):
    """The limits of requests to a pool over HTTP.

    A caller is an IPv4 address or an IPv6 /64. It may take `units_per_s`, and `units_burst` at once: a request costs
    one, a post `post_units`, a search `search_units` and one more for 10 messages of its page."""

    units_per_s: float = 20.0
    units_burst: float = 400.0
    post_units: int = 4
    search_units: int = 4
    page_default: int = 50
    open_max: int = 256
    """Questions that wait for the pool."""
    patience_s: float = 10.0
    """Seconds after which who waits is told that the pool does not answer."""
    searches_at_once: int = 32
    """Searches that the pool is asked at once; the others wait for their callers' turns."""
    searches_of_one: int = 16
    searches_max: int = 256
    """Searches that wait for their turn, of one caller and in all."""
    watchers_max: int = 64
    watchers_of_one: int = 8
    heartbeat_s: float = 20.0
    """Seconds between two signs of life: proxies cut what is silent for a minute, some for less."""
    watch_life_s: int = 3600
    """For how long a standing query is left at the pool. It is left again when a quarter of that is over, so that it
    lasts though one is lost."""
    solve_queue_max: int = 8
    """Messages that wait for the node's solver."""
    solve_burst_s: float = 10.0
    """Seconds in which the share of `solve_cpu_percent` may be saved up, and the most that one message may cost."""
    solve_claim_s: float = 60.0
    """Seconds for which work is kept for a caller that was told to ask again, from the time that it was told."""
    solve_forget_s: float = 600.0
    """Seconds after which half of what a caller had counts."""
