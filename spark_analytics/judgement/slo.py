"""The service level that an audit measures: which share of what is owed must arrive at its hop within which time."""

from __future__ import annotations

import re
from typing import NamedTuple

WHOLE_PPM = 1_000_000
_TEXT = re.compile(r"(\d{1,3})(?:\.(\d{1,4}))?%?:(\d{1,6})(?:\.(\d{1,3}))?(ms|s|m|h)", re.ASCII)
_UNIT_NS = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}


class Slo(NamedTuple):
    """`target_ppm`: the share, in millionths; `limit_ns`: the time from the acceptance at a router until a local
    recipient has settled a message, or the next router has taken it over."""

    target_ppm: int = 999_000
    limit_ns: int = 5 * 10**9


USUAL = Slo()
"""What an audit measures unless it is asked otherwise."""


def parse_slo(text: str) -> Slo:
    """Return the service level that a text such as `99.9:5s` names; raise `ValueError` with what to write."""
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r:.80} is no service level: write SHARE:TIME, as 99.9:5s or 95:500ms")
    whole, part, time, fraction, unit = found.groups()
    target_ppm = int(whole) * 10_000 + int((part or "").ljust(4, "0"))
    limit_ns = int(time) * _UNIT_NS[unit] + int((fraction or "").ljust(3, "0")) * _UNIT_NS[unit] // 1000
    if target_ppm >= WHOLE_PPM:
        raise ValueError(f"{text!r}: a share of 100 leaves no budget to measure; write one below it, as 99.9:5s")
    if not target_ppm:
        raise ValueError(f"{text!r}: a share of 0 asks for nothing; write one above 0 and below 100, as 99.9:5s")
    if not limit_ns:
        raise ValueError(f"{text!r}: within no time nothing arrives; write a time above 0, as 99.9:5s")
    return Slo(target_ppm, limit_ns)
