"""The audit reports what a log tells of a link that it says was down, and starts amid a run, and nothing that only
looks so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from samples.audit_logs import LATE, Log, message_id
from samples.one_log import claimed, then
from samples.two_logs import Case, begun, said

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
        "after the first line of its run": then(begun, in_run(RUN, "config", 5), in_run(RUN, "start", 6)),
    }
    quiet = {
        "one": begun,
        "two": then(begun, said("stop", 4), lambda log: begun(log, 5), said("stop", 6)),
        "two without a stop": then(begun, lambda log: begun(log, 5)),
        "a hole": then(begun, in_run(first, "start", 5), hole),
    }
    found = claimed({**told, **quiet}, tmp_path)
    assert found == {**{case: [("begun-twice", 1)] for case in told}, **{case: [] for case in quiet}}
