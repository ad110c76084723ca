"""The ten states of a delivery: their order in pictures, their colours, and the meaning of each in one sentence."""

from __future__ import annotations

from typing import NamedTuple

from .markup import Markup, tag


class State(NamedTuple):
    """A state of a delivery. `light`, `dark`: its colour on either background. `family`: arrived, ended, open, lost."""

    name: str
    family: str
    light: str
    dark: str
    meaning: str


STATES = (
    State(
        "delivered",
        "arrived",
        "#276894",
        "#5291b5",
        "A recipient at this router confirmed that it has the message.",
    ),
    State(
        "acked",
        "arrived",
        "#3597db",
        "#8cc4e4",
        "The next router confirmed that it took the message over; from there on that router answers for it.",
    ),
    State(
        "unconfirmed",
        "ended",
        "#368f80",
        "#5aa294",
        "Sent once with ttl 0, which asks for no confirmation. Whether it arrived is not known, as its sender wished.",
    ),
    State(
        "expired",
        "ended",
        "#b68213",
        "#e6ac45",
        "Waited longer than its sender allowed (ttl or expiry) and was deleted, as asked.",
    ),
    State("refused", "ended", "#8e67ae", "#a786d6", "The recipient or the next router turned it down, with a reason."),
    State("dropped", "ended", "#623d4f", "#937d78", "This router gave it up itself, with a reason."),
    State("evicted", "ended", "#be6876", "#e1a3c4", "Removed from a full queue, to make room for others."),
    State(
        "pending",
        "open",
        "#7a8cab",
        "#727179",
        "Its time had not run out where the log ends: it may still arrive. Not a loss.",
    ),
    State(
        "unknown",
        "open",
        "#5b606a",
        "#aaaba1",
        "Its end may stand in a part of a log that is missing, so nobody can judge it.",
    ),
    State(
        "unaccounted",
        "lost",
        "#b3390b",
        "#fe3a12",
        "Its time has run out, the log is whole, and no end was written: lost without a trace.",
    ),
)
NAMES = tuple(state.name for state in STATES)
NOT_ARRIVED = ("unaccounted", "unknown", "dropped", "evicted", "refused", "expired", "unconfirmed", "pending")
"""States in which nothing arrived, worst first."""


def swatch(class_: str) -> Markup:
    """Return a small square in the colour and pattern of that class."""
    box = tag("rect", x="0.5", y="0.5", width=11, height=11, class_=class_)
    return tag("svg", box, class_="swatch", width=12, height=12, aria_hidden="true")


def named(name: str, class_: str = "") -> Markup:
    """Return the name with its square; the square is a state's unless another class is given."""
    return tag("span", swatch(class_ or f"s-{name}"), " ", name, class_="state")
