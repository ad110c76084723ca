"""The lifetime of a message: ttl and expiry (R-A2, R-A3). Times are Unix seconds unless the name says otherwise."""

from __future__ import annotations

EPOCH_S = 1_577_836_800  # 2020-01-01T00:00Z
UINT32_MAX = (1 << 32) - 1
TTL_S = 86_400  # default
EXPIRY_MIN = 1440
SECOND_NS = 1_000_000_000
_UNITS_S = (("days", 86_400), ("hours", 3_600), ("minutes", 60), ("seconds", 1))


def expiry_s(expiry_min: int) -> int:
    """Return the Unix second from which a message with this `exp` is no longer valid."""
    return EPOCH_S + 60 * expiry_min


def expiry_min(unix_s: float) -> int:
    """Return the `exp` of a message that is valid until `unix_s`, rounded up to the whole minute."""
    return max(0, min(UINT32_MAX, -int(-(unix_s - EPOCH_S) // 60)))


def deadline_s(arrival_s: int, ttl_s: int, expiry: int, ttl_s_max: int) -> int:
    """Return when this router gives up: min(arrival + ttl, exp), with the ttl clamped to the local maximum (R-A3)."""
    return min(arrival_s + min(ttl_s, ttl_s_max), expiry_s(expiry))


def apart_words(ahead_ns: int) -> str:
    """Return, for people, how far a clock is ahead of another or behind it: "2.0 hours behind"."""
    apart_s = abs(ahead_ns) / SECOND_NS
    unit, size_s = next((one for one in _UNITS_S if apart_s >= one[1]), _UNITS_S[-1])
    return f"{apart_s / size_s:.1f} {unit} {'ahead of' if ahead_ns > 0 else 'behind'}"


def clock_text(ahead_ns: int) -> str:
    """Return cause and remedy of refusing a message that is valid by only one of this node's two clocks."""
    whose = "its neighbours' clocks, or what it was" if ahead_ns > 0 else "its neighbours' clocks"
    return f"this node's clock is {apart_words(ahead_ns)} {whose}: set it, or, if it is right, `router clock confirm`"
