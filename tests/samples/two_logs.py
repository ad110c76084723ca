"""Two logs written by hand, of which the first says of the second what that one contradicts, or only seems to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from router.core.log.life import Life
from router.core.log.line import Line
from samples.audit_logs import APP, BOOTED, LATE, OTHER_APP, SECOND, Log, message_id, name

G = message_id("group")
HOUR, DAY = 3600, 86_400
MARK = {"clock_moves_s_max": 600, "queue_messages_max": 100, "queue_bytes_max": 1 << 30}
"""The limits that a router writes down at each start."""
LIFE_FIRST = 10_100_000_000
"""The first event of a restored life."""
Case = Callable[[Log], object]
Pair = Callable[[Log, Log], object]


def begun(log: Log, at: float = 0, **fields: Any) -> None:
    log.state("start", at)
    log.state("config", at, **MARK | fields)


def said(event: str, at: float = 2, **fields: Any) -> Case:
    def write(log: Log) -> None:
        log.state(event, at, **fields)

    return write


def handed(
    here: Log,
    there: Log,
    reason: str = "bad-signature",
    *,
    event: str = "refused",
    at: float = 40,
    peer: str | None = None,
    steps: Sequence[tuple[float, Case]] = (),
) -> None:
    """Hand three messages over, of which the first two are acknowledged; the third, accepted there `at`, ends otherwise
    at 50. `steps`: what else the other router writes, and when."""
    ids = [f"{name(here.key)} {one}" for one in range(3)]
    begun(here)
    here.accepted(1, ids, [name(there.key)], 10)
    here.outward("forwarded", [(1, 3)], 10, recipient=name(there.key))
    here.outward("acked", [(1, 2)], 21, recipient=name(there.key))
    here.outward(event, [(3, 1)], 50 if event == "refused" else 80, recipient=name(there.key), reason=reason)
    here.state("stop", LATE)
    own: list[tuple[float, Case]] = [
        (0, begun),
        (20, lambda log: log.accepted(1, ids[:2], [], 20, peer=name(here.key))),
        (at, lambda log: log.accepted(3, ids[2:], [], at, peer=peer or name(here.key))),
        (LATE + 1, lambda log: log.state("stop", LATE + 1)),
    ]
    for _, write in sorted([*own, *steps], key=lambda step: step[0]):
        write(there)


def refused_all(here: Log, there: Log) -> None:
    """Hand one message over, accepted there at 40, and say at 50 that it was refused; take another over, which alone
    tells how far both clocks are apart."""
    given, taken = f"{name(here.key)} given", f"{name(here.key)} taken"
    begun(here)
    here.accepted(1, [taken], [], 6, peer=name(there.key))
    here.accepted(2, [given], [name(there.key)], 10)
    here.outward("forwarded", [(2, 1)], 10, recipient=name(there.key), parcel=2)
    here.outward("refused", [(2, 1)], 50, recipient=name(there.key), parcel=2, reason="no-route")
    here.state("stop", LATE)
    begun(there)
    there.accepted(1, [taken], [name(here.key)], 5)
    there.outward("forwarded", [(1, 1)], 5, recipient=name(here.key))
    there.outward("acked", [(1, 1)], 7, recipient=name(here.key))
    there.accepted(2, [given], [], 40, peer=name(here.key))
    there.state("stop", LATE + 1)


NAMES_LEAVES: dict[str, Any] = {"groups_per_client_max": 1000}
"""What a router's `config` tells in addition if its log names whoever leaves."""


def unread(joined_at: float, left_at: float = LATE, **named: Any) -> Pair:
    """Let a message be refused at 50 because nobody had joined at the neighbour, where an app joined and left. `named`:
    what the neighbour's `config` tells before that in addition."""
    link = said("link_up", 1, peer=OTHER_APP, link=7, standing="local")
    events = [
        (at, said(event, at, subscriber=OTHER_APP, group=G)) for event, at in (("join", joined_at), ("leave", left_at))
    ]
    config = (0.5, said("config", 0.5, **MARK | named))
    steps = [config, (1, link), *events] if named else [(1, link), *events]
    return lambda here, there: handed(here, there, "no-subscribers", at=70, steps=steps)


def refused_here(door: Mapping[str, int], *others: str, is_named: bool = True, **named: Any) -> Pair:
    """Let a message be refused as nobody had joined, where an app had; the neighbour's door tells of so many, by their
    reason, and names that message (`is_named`) and these `others`. `named`: as of `unread`."""

    def write(here: Log, there: Log) -> None:
        unread(2, **named)(here, there)
        ids = [*((f"{name(here.key)} 2",) if is_named else ()), *others]
        for reason, count in door.items():
            there.turned("refused", count, reason, LATE, name(here.key), ids)

    return write


def copied_on(*ends: str, joined: bool = False) -> Pair:
    """Let a service send a message on to a neighbour, which accepts the first copy at 40, after another message was
    acknowledged. `ends`: how each copy ends, at 50. `joined`: an app had joined there, and nobody is said to have."""

    def write(here: Log, there: Log) -> None:
        ids = [f"{name(here.key)} {one}" for one in range(2)]
        begun(here)
        here.state("join", 1, subscriber=APP, group=G, service="pubsub")
        here.accepted(1, ids[:1], [name(there.key)], 10)
        here.outward("forwarded", [(1, 1)], 10, recipient=name(there.key))
        here.outward("acked", [(1, 1)], 21, recipient=name(there.key))
        here.accepted(2, ids[1:], [], 30)
        for first in range(3, 3 + len(ends)):
            here.accepted(first, ids[1:], [name(there.key)], 32, kind="copy", peer=APP)
            here.outward("forwarded", [(first, 1)], 32, recipient=name(there.key), parcel=first)
        for first, event in enumerate(ends, 3):
            reason = {"expired": "ttl-expired", "refused": "no-subscribers" if joined else "no-route"}.get(event)
            at = 120 if event == "expired" else 50
            here.outward(event, [(first, 1)], at, recipient=name(there.key), parcel=first, reason=reason)
        here.state("stop", LATE)
        begun(there)
        if joined:
            there.state("link_up", 1, peer=OTHER_APP, link=7, standing="local")
            there.state("join", 2, subscriber=OTHER_APP, group=G)
        there.accepted(1, ids[:1], [], 20, peer=name(here.key))
        there.accepted(2, ids[1:], [], 40, peer=name(here.key))
        there.state("stop", LATE + 1)

    return write


def taken_again(here: Log, there: Log) -> None:
    """Let the first router bring a message, be restored from a snapshot of before, and bring it once more at 70."""
    ids = [f"{name(here.key)} {one}" for one in range(2)]
    begun(here)
    here.accepted(1, ids[:1], [], 1)
    last, first = here.seq - 1, LIFE_FIRST
    here.state("log_gap", 60, n=first - here.seq, missing=first - here.seq)
    here.state(
        "start", 60, arrival=first, **dict(Life(1_790_000_100_000, 1_790_000_000, 1_790_000_100, last, first).told())
    )
    here.accepted(first, ids[1:], [name(there.key)], 70)
    here.outward("forwarded", [(first, 1)], 70, recipient=name(there.key), parcel=first)
    here.outward("acked", [(first, 1)], 71, recipient=name(there.key), parcel=first)
    begun(there)
    there.accepted(1, ids[1:], [], 5, peer=name(here.key))
    for log in (here, there):
        log.state("stop", LATE)


def history(*asked: int, at: float = 3, of: str | None = None, steps: Sequence[Case] = ()) -> Case:
    """Let a service alone be given two messages at 5 that a router brought, although an app had joined. `asked`: which
    of them were asked for as history, `at` what time and `of` whom, if not of that router; `steps`: what else is
    written before."""
    router = message_id("router")

    def write(log: Log) -> None:
        ids = [f"{name(log.key)} {one}" for one in range(2)]
        begun(log, history_open_max=4096)
        log.state("link_up", 1, peer=APP, link=7, standing="local")
        log.state("link_up", 1, peer=OTHER_APP, link=2, standing="local")
        log.state("link_up", 1, peer=router, link=9, standing="peer")
        log.state("join", 1, subscriber=APP, group=G)
        log.state("join", 1, subscriber=OTHER_APP, group=G, service="pubsub")
        for write_more in steps:
            write_more(log)
        for asked_at in (3, 9):
            if asked_at == 9:
                log.accepted(1, ids, [OTHER_APP], 5, peer=router)
                log.outward("forwarded", [(1, 2)], 5, recipient=OTHER_APP)
                log.outward("delivered", [(1, 2)], 5, recipient=OTHER_APP)
            for one in asked if at == asked_at else ():
                line = log.noted("history_asked", 1, at=at, service="router", router=of or router, group=G)
                log.lines[-1] = replace(line, ids=message_id(ids[one]))
        log.state("stop", LATE)

    return write


def asked_of_another(at: float, there_at: float, joined_at: float | None = None, *steps: tuple[float, Case]) -> Pair:
    """Let a router ask its neighbour `at` what time for two messages as history, of which that one accepted the first
    early, and the second `there_at`; the bounds of their clocks are a second either way. `joined_at`: when an app
    joined; `steps`: what else the router writes, and when."""

    def write(here: Log, there: Log) -> None:
        ids = [f"{name(here.key)} {one}" for one in range(3)]

        def began(log: Log) -> None:
            begun(log, history_open_max=4096)
            log.state("link_up", 1, peer=OTHER_APP, link=3, standing="local")
            log.state("link_up", 1, peer=name(there.key), link=2, standing="peer")
            log.state("join", 1, subscriber=OTHER_APP, group=G, service="pubsub")
            log.accepted(1, ids[:1], [name(there.key)], 2)
            log.outward("forwarded", [(1, 1)], 2, recipient=name(there.key), parcel=1)
            log.outward("acked", [(1, 1)], 4, recipient=name(there.key), parcel=1)

        def ask(log: Log) -> None:
            line = log.noted("history_asked", 2, at=at, service="router", router=name(there.key), group=G)
            log.lines[-1] = replace(line, ids="".join(message_id(one) for one in ids[1:]))

        def join(log: Log) -> None:
            log.state("link_up", joined_at or 0, peer=APP, link=7, standing="local")
            log.state("join", joined_at or 0, subscriber=APP, group=G)

        own: list[tuple[float, Case]] = [(0, began), (at, ask), *steps]
        for _, write_one in sorted([*own, *([(joined_at, join)] if joined_at else [])], key=lambda step: step[0]):
            write_one(here)
        begun(there)
        there.accepted(1, ids[:1], [], 3, peer=name(here.key))
        there.accepted(2, ids[1:2], [], 3)
        there.accepted(3, ids[2:], [], there_at)
        there.accepted(4, ids[2:], [], there_at + HOUR)
        for log in (here, there):
            log.state("stop", DAY)

    return write


def clock_moved(write: Pair, at: float, by_s: float, *, here: bool = False) -> Pair:
    """Let the wall clock of the second router, or of the first one, be off by so many seconds from a time on, by fewer
    than a router tells of."""

    def write_moved(one: Log, two: Log) -> None:
        write(one, two)
        log = one if here else two
        log.lines = [
            replace(line, t=line.t + int(by_s * SECOND)) if (line.mono or 0) >= BOOTED + at * SECOND else line
            for line in log.lines
        ]

    return write_moved


def told_beyond(write: Pair) -> Pair:
    """Let the first router say in addition that the log of the second one reaches further than it does."""
    return cut_off(write, 2 * DAY)


def cut_off(write: Pair, at: float) -> Pair:
    """Let the log of the second router lack what it wrote from a time on, of which the first one was told."""

    def write_cut(here: Log, there: Log) -> None:
        write(here, there)
        there.lines = [line for line in there.lines if (line.mono or 0) < BOOTED + at * SECOND]
        end = there.seq + 99
        here.state("link", DAY + 1, peer=name(there.key), rtt_ns=9, head_seq=end, head_digest="ab" * 32)

    return write_cut


def not_left(log: Log) -> Line:
    """Drop two messages because an app had left, that had joined and was connected; return the last line."""
    begun(log, history_open_max=4096)
    log.state("link_up", 1, peer=APP, link=7, standing="local")
    log.state("join", 1, subscriber=APP, group=G)
    log.accepted(1, [f"{name(log.key)} {one}" for one in range(2)], [APP], 5)
    log.outward("dropped", [(1, 2)], 6, reason="left")
    return log.state("stop", LATE)


def dated(log: Log, at: float, by_s: float) -> None:
    """Write a line of which the wall clock is `by_s` seconds off."""
    log.state("advert", at)
    log.lines[-1] = replace(log.lines[-1], t=log.lines[-1].t + int(by_s * 10**9))


def dates(
    *lines: tuple[float, float], step: tuple[float, float] | None = None, until: float = HOUR, doubted: bool = False
) -> Case:
    """Let the wall clock be off by so many seconds at these times, and write the `step` that it makes, by which the
    router doubts it if it is `doubted`."""

    def write(log: Log) -> None:
        begun(log)
        for at, by_s in lines:
            if step is not None and step[0] == at:
                dated(log, at, step[1])
                log.lines[-1] = replace(log.lines[-1], event="clock_step", fields={"by_s": 1, "doubted": doubted})
            else:
                dated(log, at, by_s)
        log.state("stop", until)
        log.lines[-1] = replace(log.lines[-1], t=log.lines[-1].t + int(lines[-1][1] * 10**9))

    return write


def flooded(count: int, handed_over: int = 0, end: float = LATE, **columns: Any) -> Pair:
    """Let messages be turned away from a neighbour, whose log, until `end`, tells how many it handed over."""

    def write(here: Log, there: Log) -> None:
        begun(here)
        here.turned("refused", count, "bad-signature", 20, columns.get("peer", name(there.key)))
        here.state("stop", LATE)
        begun(there)
        if handed_over:
            there.accepted(1, [f"{name(there.key)} {one}" for one in range(handed_over)], [name(here.key)], 10)
            there.outward("forwarded", [(1, handed_over)], 10, recipient=name(here.key))
        there.state("stop", end)

    return write


def of_a_clock_ahead(end: float) -> Pair:
    """Let messages be turned away at 20 from a neighbour, and one be acknowledged by it at 30, of which its log, until
    `end`, does not tell. It tells when it took another one over, and so how far its clock is ahead."""

    def write(here: Log, there: Log) -> None:
        ids = [f"{name(here.key)} {one}" for one in range(2)]
        begun(here)
        here.state("link_up", 0, peer=name(there.key), link=2)
        for first, at in ((1, 1), (2, 27)):
            if first == 2:
                here.turned("refused", 500, "bad-signature", 20, name(there.key))
            here.accepted(first, ids[first - 1 : first], [name(there.key)], at)
            here.outward("forwarded", [(first, 1)], at, recipient=name(there.key), parcel=first)
            here.outward("acked", [(first, 1)], at + 3, recipient=name(there.key), parcel=first)
        here.state("stop", LATE)
        begun(there)
        there.accepted(1, ids[:1], [], 3, peer=name(here.key))
        there.state("stop", end)

    return write


def blamed(count: int, turned: int = 0, end: float = LATE, reason: str = "not-authorised", **columns: Any) -> Pair:
    """Let messages be refused by a neighbour at 20, whose log, until `end`, tells how many of them it `turned` away,
    in a line about `peer`, if not of this router; `started`: when it was started again; `stopped`: whether it was
    stopped at the end, and not killed."""

    def write(here: Log, there: Log) -> None:
        begun(here)
        here.accepted(1, [f"{name(here.key)} {one}" for one in range(count)], [name(there.key)], 10)
        here.outward("forwarded", [(1, count)], 10, recipient=name(there.key))
        here.outward("refused", [(1, count)], 2000, recipient=name(there.key), reason=reason)
        here.state("stop", LATE)
        begun(there)
        for at in columns.get("started", ()):
            begun(there, at)
        if turned:
            there.turned("refused", turned, "rate-limited", 2000, columns.get("peer", name(here.key)))
        if columns.get("known"):
            there.turned("duplicate", columns["known"], "duplicate", 2001, name(here.key))
        for write_more in columns.get("steps", ()):
            write_more(there)
        there.state("stop" if columns.get("stopped", True) else "invite", end)

    return write


FACTS: dict[str, dict[str, Any]] = {
    "kind": {"kind": "unicast", "group": None, "source": G, "destination": OTHER_APP},
    "source or group": {"group": OTHER_APP},
    "destination": {"kind": "unicast", "group": None, "source": G, "destination": OTHER_APP},
    "expiry": {"expiries": [30_000_001]},
    "ttl": {"ttls": [61]},
    "size": {"sizes": [635]},
}
"""What the second log tells otherwise, by the fact."""


def unlike(here: Log, there: Log) -> None:
    """Let both accept a message for each fact that belongs to an id, which the second tells otherwise."""
    plain: dict[str, Any] = {"sizes": [500], "ttls": [60], "expiries": [30_000_000]}
    unicast = {"kind": "unicast", "group": None, "source": G, "destination": message_id("destination")}
    for log in (here, there):
        begun(log)
        for number, (fact, other) in enumerate(FACTS.items(), 1):
            given = plain | (unicast if fact == "destination" else {}) | (other if log is there else {})
            log.accepted(number, [f"{name(here.key)} {fact}"], [], number, **given)
        log.state("stop", LATE)
