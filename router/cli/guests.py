"""Sentences about guests of a running node that `router.toml` does not name or has no room for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def guest_problems(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield each problem with the guests, as cause and remedy. `facts`: the part `guests` of the node's status."""
    if facts["unwritten"] and (problem := facts["problem"]):
        said = f"{_guests(facts['unwritten'])} let in by invitation, and not in router.toml: {problem}"
        yield f"{said}; `router peer remove` ends the rights of one all the same"
    if facts["full"] is not None:
        said = f"no further guest is let in: limits.guests_max allows {_neighbours(facts['full'])}"
        yield f"{said}; raise it and start the node again, or remove some by `router peer remove`"


def guests_beside(facts: Mapping[str, Any]) -> str:
    """Return a sentence about rights that are in force but not in `router.toml`; "" if there are none."""
    if not facts["beside"]:
        return ""
    have = "1 guest has" if facts["beside"] == 1 else f"{facts['beside']} guests have"
    return f"{have} rights by invitation beside those in router.toml, because these end at another time"


def _neighbours(count: int) -> str:
    return "1 neighbour" if count == 1 else f"{count} neighbours"


def _guests(count: int) -> str:
    return "1 guest is" if count == 1 else f"{count} guests are"
