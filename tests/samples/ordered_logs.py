"""Two logs written by hand that order alone ties together: the clock of one of them was set."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from samples.audit_logs import APP, LATE, OTHER_APP, Log, message_id, name
from samples.two_logs import MARK, NAMES_LEAVES, G, Pair, begun, told_beyond

HERE, THERE = 0, 1
Step = tuple[float, int, Callable[[Log, Log], object]]
"""When something is written, in which log, and what, given that log and the other one."""
LINK = 9
GROUP = message_id("group")


def said(side: int, event: str, at: float, **fields: object) -> Step:
    return at, side, lambda log, _: log.state(event, at, **fields)


def linked(side: int, event: str, at: float) -> Step:
    """Write of the link with the other router that it came up or went down, or that an answer came over it."""
    fields = {"rtt_ns": 9} if event == "link" else {"link": LINK, "standing": "peer"}
    return at, side, lambda log, other: log.state(event, at, peer=name(other.key), **fields)


def handed(
    giver: int,
    number: int,
    at: float,
    there_at: float | None,
    end_at: float,
    event: str = "acked",
    reason: str | None = None,
    peer: str | None = None,
) -> list[Step]:
    """Hand a message over that is accepted `at`, by the other router `there_at` (None: never), and ends `end_at`.
    `peer`: who brought it there, if it was another."""

    def taken(log: Log, other: Log) -> None:
        ids, brought = [f"{name(other.key)} {number}"], peer or name(other.key)
        log.accepted(1000 + number, ids, [], there_at or 0, ttl=3600, peer=brought)

    def given(log: Log, other: Log) -> None:
        log.accepted(number, [f"{name(log.key)} {number}"], [name(other.key)], at, ttl=3600)
        log.outward("forwarded", [(number, 1)], at, recipient=name(other.key), parcel=number, link=LINK)

    def ended(log: Log, other: Log) -> None:
        whom = name(other.key)
        log.outward(event, [(number, 1)], end_at, recipient=whom, parcel=number, link=LINK, reason=reason)

    there = [] if there_at is None else [(there_at, 1 - giver, taken)]
    return [(at, giver, given), *there, (end_at, giver, ended)]


def asked(side: int, giver_number: int, at: float) -> Step:
    """Ask the other router for a message of its own as history."""

    def write(log: Log, other: Log) -> None:
        line = log.noted("history_asked", 1, at=at, service="router", router=name(other.key), group=G)
        log.lines[-1] = replace(line, ids=message_id(f"{name(other.key)} {giver_number}"))

    return at, side, write


def sent_once_more(side: int, number: int, at: float) -> Step:
    """Send a message to the other router, which asked for it."""

    def write(log: Log, other: Log) -> None:
        log.outward("pulled", [(number, 1)], at, recipient=name(other.key), parcel=number, link=LINK)

    return at, side, write


def sent_on(side: int, number: int, at: float) -> Step:
    """Let a service send a message on to the other router before this one accepted it itself."""

    def write(log: Log, other: Log) -> None:
        log.state("join", at, subscriber=APP, group=GROUP, service="pubsub")
        ids, whom = [f"{name(log.key)} {number}"], [name(other.key)]
        log.accepted(800 + number, ids, whom, at, ttl=3600, kind="copy", peer=APP)

    return at, side, write


def carrier(side: int, at: float) -> Step:
    """Accept a message that is addressed to the other router, and may hold another one."""

    def write(log: Log, other: Log) -> None:
        unicast: dict[str, Any] = {"kind": "unicast", "group": None, "source": APP, "destination": name(other.key)}
        log.accepted(900, [f"{name(log.key)} carrier"], [], at, **unicast)

    return at, side, write


def present(at: float, left_at: float = LATE) -> list[Step]:
    """Let an app be in the group and connected at the other router."""
    return [
        said(THERE, "link_up", at, peer=OTHER_APP, link=7, standing="local"),
        said(THERE, "join", at, subscriber=OTHER_APP, group=GROUP),
        *([said(THERE, "leave", left_at, subscriber=OTHER_APP, group=GROUP)] if left_at < LATE else []),
    ]


def set_clock(side: int, at: float) -> Step:
    return said(side, "clock_step", at, by_s=3600, doubted=False)


def by_order(*parts: Iterable[Step] | Step, stepped: Iterable[Step] = (set_clock(HERE, 1.5),)) -> Pair:
    """Write both logs, with their link up from 1 on, in the order of their times. `stepped`: when clocks are set."""

    def write(*logs: Log) -> None:
        steps: list[Step] = [
            *((0, side, lambda log, _: begun(log, history_open_max=4096)) for side in (HERE, THERE)),
            *(linked(side, "link_up", 1) for side in (HERE, THERE)),
            *stepped,
        ]
        for part in parts:
            steps += [part] if isinstance(part, tuple) else part
        steps += [said(side, "stop", LATE) for side in (HERE, THERE)]
        for _, side, step in sorted(steps, key=lambda one: one[0]):
            step(logs[side], logs[1 - side])

    return write


REFUSED = handed(HERE, 2, 20, 40, 50, "refused", "bad-signature")
"""Handed over at 20, accepted there at 40, and said at 50 to have been refused."""
UNREAD = handed(HERE, 2, 20, None, 50, "refused", "no-subscribers")
"""Handed over at 20, and said at 50 to have been refused as nobody had joined."""
GAP = [linked(HERE, "link_down", 10), linked(HERE, "link_up", 300)]
HEARD = [linked(THERE, "link", at) for at in (30, 90, 150)]
"""Answers that the other router had."""
BOTH_WAYS = [*handed(HERE, 1, 20, 21, 310), *handed(THERE, 3, 200, 201, 202)]
"""What went either way before and after the last two answers."""
ORDERED: dict[str, Pair] = {
    "refused, a clock was set": by_order(REFUSED, handed(HERE, 3, 41, 42, 55)),
    "joined, a clock was set": by_order(present(2), handed(HERE, 1, 5, 6, 7), UNREAD, handed(HERE, 4, 55, 60, 70)),
    "linked, a clock was set": by_order(GAP, HEARD, BOTH_WAYS),
    "asked, a clock was set": by_order(asked(HERE, 5, 30), handed(HERE, 1, 31, 32, 33), handed(THERE, 5, 60, 61, 62)),
}
"""Lies that order alone tells."""
NAMED = said(THERE, "config", 0.5, **MARK, **NAMES_LEAVES)
BEFORE, LATER, ONWARD = (handed(HERE, *times) for times in ((1, 5, 6, 7), (3, 41, 42, 55), (4, 55, 60, 70)))
BEYOND: dict[str, Pair] = {
    "refused, beyond": told_beyond(by_order(REFUSED, LATER, ONWARD)),
    "joined, beyond": told_beyond(by_order(NAMED, present(2), BEFORE, UNREAD, ONWARD)),
    "linked, beyond": told_beyond(by_order(GAP, HEARD, BOTH_WAYS, handed(HERE, 5, 160, 161, 170))),
}
"""Such lies of a router that says in addition that the other log reaches further than it does."""
