"""The audit reports what a log tells of a link that it says was down, and starts amid a run, and nothing that only
looks so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from samples.audit_logs import LATE, Log, message_id, name
from samples.one_log import between, claimed, then
from samples.two_logs import Case, G, Pair, begun, clock_moved, cut_off, said, told_beyond

PEER, OTHER_PEER = message_id("router"), message_id("another router")
RUN = "0" * 31 + "9"


def up(at: float = 1, link: int = 9, peer: str = PEER) -> Case:
    return said("link_up", at, peer=peer, link=link, standing="peer")


def down(at: float = 2, link: int = 9, peer: str = PEER) -> Case:
    return said("link_down", at, peer=peer, link=link, standing="peer")


def pong(at: float = 3, peer: str = PEER) -> Case:
    return said("link", at, peer=peer, rtt_ns=9, offset_ns=1, uncertainty_ns=5)


def in_run(boot: str, event: str, at: float, **fields: Any) -> Case:
    return lambda log: log.state(event, at, boot=boot, **fields)


def hole(log: Log) -> None:
    log.state("log_gap", LATE, missing=1)


def test_answers_over_a_link_that_was_down_are_told(tmp_path: Path) -> None:
    told = {
        "down": (then(begun, up(), down(), pong()), 1),
        "twice": (then(begun, up(), pong(1), down(), pong(3), pong(63)), 2),
        "never up": (then(begun, up(peer=OTHER_PEER), pong()), 1),
        "both links down": (then(begun, up(), up(link=10), down(), down(link=10), pong()), 1),
        "up again only later": (then(begun, up(), down(), pong(), up(4, 10), pong(5)), 1),
        "in another run": (then(begun, up(), lambda log: begun(log, 2), pong()), 1),
        "links are counted in another run": (
            then(
                begun, said("link_up", standing="stranger", times=3), lambda log: begun(log, 2), up(2), down(3), pong(4)
            ),
            1,
        ),
    }
    quiet = {
        "up": then(begun, up(), pong(), down(4)),
        "up again": then(begun, up(), down(), up(3, 10), pong(4)),
        "one of two links": then(begun, up(), up(link=10), down(), pong()),
        "replaced": then(begun, up(), down(1), up(1, 10), pong()),
        "links that are counted": then(begun, up(), down(), said("link_up", standing="peer", times=1), pong()),
        "a key that followed": then(begun, up(), down(), said("renewal", 2, old=OTHER_PEER, new=PEER), pong()),
        "a key that was followed": then(begun, up(), down(), said("renewal", 2, old=PEER, new=OTHER_PEER), pong()),
        "no start": then(up(), down(), pong()),
        "a hole": then(begun, up(), down(), pong(), hole),
    }
    found = claimed({**{case: write for case, (write, _) in told.items()}, **quiet}, tmp_path)
    expected = {case: [("heard-when-down", count)] for case, (_, count) in told.items()}
    assert found == {**expected, **{case: [] for case in quiet}}


def test_starts_amid_a_run_are_told(tmp_path: Path) -> None:
    first = "0" * 32
    told = {
        "of the same run": then(begun, in_run(first, "start", 5)),
        "of another run, before the last line of this one": then(begun, in_run(RUN, "start", 5), said("stop", 6)),
        "after a join of its run": then(begun, in_run(RUN, "join", 5), in_run(RUN, "start", 6)),
    }
    quiet = {
        "one": begun,
        "after a renewal in its run": then(begun, in_run(RUN, "renewal", 5), in_run(RUN, "start", 6)),
        "after a leave in its run, as earlier versions have it": then(
            begun, in_run(RUN, "leave", 5), in_run(RUN, "start", 6)
        ),
        "two": then(begun, said("stop", 4), lambda log: begun(log, 5), said("stop", 6)),
        "two without a stop": then(begun, lambda log: begun(log, 5)),
        "a hole": then(begun, in_run(first, "start", 5), hole),
    }
    found = claimed({**told, **quiet}, tmp_path)
    assert found == {**{case: [("begun-twice", 1)] for case in told}, **{case: [] for case in quiet}}


Move = tuple[float, str, dict[str, Any]]
"""When a state line about a link of the other router is written, its event, and its fields."""
CUT: Move = (10, "link_down", {"link": 9})
LATER: Move = (100, "link_down", {"link": 9})


def linked_both(*pongs: float, here: Sequence[Move] = (), there: Sequence[Move] = ()) -> Pair:
    """Let two routers have a link with each other, over which the first hands a message over; the second has answers of
    it at these times. The first writes a line of another neighbour each 30 seconds."""

    def write(one: Log, two: Log) -> None:
        for log, other, link in ((one, name(two.key), 9), (two, name(one.key), 5)):
            begun(log)
            up(1, link, other)(log)
        one.accepted(1, [f"{name(one.key)} 1"], [name(two.key)], 2)
        one.outward("forwarded", [(1, 1)], 2, recipient=name(two.key))
        two.accepted(1, [f"{name(one.key)} 1"], [], 2, peer=name(one.key))
        one.outward("acked", [(1, 1)], 3, recipient=name(two.key))
        one.lines[-1] = replace(one.lines[-1], link=9)
        one.lines[-2] = replace(one.lines[-2], link=9)
        stays: list[Move] = [(at, "join", {"subscriber": OTHER_PEER, "group": G}) for at in range(31, 400, 30)]
        heard: list[Move] = [(at, "link", {"rtt_ns": 9}) for at in pongs]
        for log, peer, moves in ((one, two.key, [*here, *stays]), (two, one.key, [*heard, *there])):
            for at, event, fields in sorted([*moves, (LATE, "stop", {})], key=lambda move: move[0]):
                given = {"peer": name(peer), "standing": "peer"} | fields
                log.state(event, at, **{field: value for field, value in given.items() if value is not None})

    return write


def test_answers_over_a_link_that_the_neighbour_says_was_down_are_told(tmp_path: Path) -> None:
    told = {
        "never up again": linked_both(90, 150, 210, here=[CUT]),
        "up again": linked_both(90, 150, 210, here=[CUT, (270, "link_up", {"link": 10})]),
        "it says that the other log goes on": told_beyond(linked_both(90, 150, 210, here=[CUT])),
    }
    quiet = {
        "up": linked_both(90, 150, 210),
        "up, and the end of the other log is missing": cut_off(linked_both(90, 150, 210), 200),
        "a link for each answer": linked_both(
            90, 150, there=[(at, event, {"link": 5}) for at in (80, 140) for event in ("link_down", "link_up")]
        ),
        "up again before": linked_both(90, 150, here=[CUT, (100, "link_up", {"link": 10})]),
        "within a minute": linked_both(11, 71, here=[CUT]),
        "only the last is later": linked_both(80, 140, here=[CUT]),
        "it counts links": linked_both(90, 150, 210, here=[CUT, (20, "link_up", {"peer": None, "times": 1})]),
        "its clock was set": linked_both(90, 150, 210, here=[CUT, (20, "clock_step", {"by_s": 1})]),
        "the other clock was set": linked_both(90, 150, 210, here=[CUT], there=[(20, "clock_step", {"by_s": 1})]),
        "it answered before, by a clock set ahead": clock_moved(linked_both(30, 60, 90, here=[LATER]), 20, 200),
        "it answered before, by its own clock set back": clock_moved(
            linked_both(30, 60, 90, 120, 150, 180, 210, here=[(250, "link_down", {"link": 9})]), 240, -200, here=True
        ),
        "a hole": linked_both(90, 150, 210, here=[CUT, (20, "log_gap", {"missing": 1})]),
    }
    found, _ = between({**told, **quiet}, tmp_path)
    counts = {case: dict(rows).get("linked-there", 0) for case, rows in found.items()}
    assert counts == {**dict.fromkeys(told, 1), **dict.fromkeys(quiet, 0)}
