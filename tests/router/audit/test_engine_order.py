"""What a router says of a neighbour that the neighbour's log contradicts is told by the order of their lines where a
clock was set, and nothing that only looks so."""

from __future__ import annotations

from pathlib import Path

from samples.audit_logs import APP, LATE, Log
from samples.one_log import between
from samples.ordered_logs import (
    BOTH_WAYS,
    GAP,
    HEARD,
    HERE,
    LINK,
    REFUSED,
    THERE,
    UNREAD,
    Step,
    asked,
    by_order,
    carrier,
    handed,
    linked,
    present,
    said,
    sent_on,
    sent_once_more,
    set_clock,
)
from samples.two_logs import LIFE_FIRST, Pair

from router.core.log.life import Life

PULLED = sent_once_more(HERE, 2, 51)
CARRIER = carrier(HERE, 3)
BEFORE, BACK = handed(HERE, 1, 5, 6, 7), handed(THERE, 3, 61, 62, 63)
Cases = dict[str, tuple[Pair, int]]


def counted(claim: str, cases: Cases, tmp_path: Path) -> None:
    found, _ = between({case: write for case, (write, _) in cases.items()}, tmp_path)
    told = {case: sum(count for one, count in rows if one == claim) for case, rows in found.items()}
    assert told == {case: count for case, (_, count) in cases.items()}


def restored(log: Log, other: Log) -> None:
    """Let the router begin another life after all that it handed over."""
    last = log.seq - 1
    log.state("log_gap", 900, n=LIFE_FIRST - log.seq, missing=LIFE_FIRST - log.seq)
    life = Life(1_790_000_100_000, 1_790_000_000, 1_790_000_100, last, LIFE_FIRST)
    log.state("start", 900, arrival=LIFE_FIRST, **dict(life.told()))


def renewed(side: int) -> Step:
    return 900, side, lambda log, _: log.state("renewal", 900, old=log.key.public.hex(), new=APP, service="router")


def test_a_refusal_of_what_was_accepted_is_told(tmp_path: Path) -> None:
    later = handed(HERE, 3, 41, 42, 55)
    begun = said(HERE, "start", 52, boot="9" * 32)
    counted("refused-there", {
        "its clock was set": (by_order(REFUSED, later), 1),
        "the other clock was set": (by_order(REFUSED, later, stepped=[set_clock(THERE, 30)]), 1),
        "both were set, later": (by_order(REFUSED, later, stepped=[set_clock(HERE, LATE), set_clock(THERE, LATE)]), 1),
        "what the other one brought": (by_order(REFUSED, handed(THERE, 3, 43, 55, 60)), 1),
        "acknowledged before it was accepted": (by_order(REFUSED, handed(HERE, 3, 21, 22, 45)), 0),
        "nothing is heard of later": (by_order(REFUSED), 0),
        "heard in another run": (by_order(REFUSED, later, begun), 0),
        "a reason for which it may refuse": (
            by_order(handed(HERE, 2, 20, 40, 50, "refused", "not-authorised"), later), 0
        ),
        "restored": (by_order(REFUSED, later, (900, HERE, restored)), 0),
        "a key followed": (by_order(REFUSED, later, renewed(HERE)), 0),
        "the other key was followed": (by_order(REFUSED, later, renewed(THERE)), 0),
        "a hole": (by_order(REFUSED, later, said(THERE, "log_gap", 900, missing=1)), 0),
    }, tmp_path)  # fmt: skip


def test_a_refusal_of_what_was_sent_once_more_is_told_if_it_was_accepted_before(tmp_path: Path) -> None:
    before = handed(HERE, 3, 41, 42, 45)
    counted("refused-there", {
        "acknowledged before": (by_order(REFUSED, PULLED, before), 1),
        "brought before": (by_order(REFUSED, PULLED, handed(THERE, 3, 43, 45, 60)), 1),
        "carried, acknowledged before": (by_order(REFUSED, CARRIER, before), 1),
        "acknowledged after it": (by_order(REFUSED, PULLED, handed(HERE, 3, 41, 42, 55)), 0),
        "acknowledged with it": (by_order(handed(HERE, 3, 19, 42, 50), REFUSED, PULLED), 0),
        "brought after it": (by_order(REFUSED, PULLED, handed(THERE, 3, 43, 55, 60)), 0),
        "carried, acknowledged after it": (by_order(REFUSED, CARRIER, handed(HERE, 3, 41, 42, 55)), 0),
    }, tmp_path)  # fmt: skip


def test_nobody_had_joined_where_somebody_had_is_told_by_order(tmp_path: Path) -> None:
    onward = handed(HERE, 4, 55, 60, 70)
    counted("joined-there", {
        "acknowledged before, handed over after": (by_order(present(2), BEFORE, UNREAD, onward), 1),
        "acknowledged before, taken over after": (by_order(present(2), BEFORE, UNREAD, BACK), 1),
        "brought before": (by_order(present(2), handed(THERE, 1, 3, 4, LATE), UNREAD, onward), 1),
        "joined after what was acknowledged": (by_order(present(8), BEFORE, UNREAD, onward), 0),
        "left before what was handed over": (by_order(present(2, 58), BEFORE, UNREAD, onward), 0),
        "what may have come in a carrier": (by_order(present(2), BEFORE, UNREAD, onward, CARRIER), 0),
        "what a service had sent on": (by_order(present(2), BEFORE, UNREAD, onward, sent_on(HERE, 4, 54)), 0),
        "nothing before": (by_order(present(2), UNREAD, onward), 0),
        "nothing after": (by_order(present(2), BEFORE, UNREAD), 0),
    }, tmp_path)  # fmt: skip


def test_a_link_over_which_messages_went_both_ways_is_told_by_order(tmp_path: Path) -> None:
    again = [linked(THERE, event, at) for at in (60, 100) for event in ("link_down", "link_up")]
    counted("linked-there", {
        "both ways": (by_order(GAP, HEARD, BOTH_WAYS), 2),
        "never up again": (by_order(GAP[:1], HEARD, BOTH_WAYS), 2),
        "up": (by_order(HEARD, BOTH_WAYS), 0),
        "nothing handed over": (by_order(GAP, HEARD, handed(THERE, 3, 200, 201, 202)), 0),
        "handed over after it was up again": (
            by_order(GAP, HEARD, handed(HERE, 1, 20, 310, 311), handed(THERE, 3, 200, 201, 202)), 0
        ),
        "nothing taken over": (by_order(GAP, HEARD, handed(HERE, 1, 20, 21, 310)), 0),
        "taken over before the answers": (
            by_order(GAP, HEARD, handed(HERE, 1, 20, 21, 310), handed(THERE, 3, 22, 23, 24)), 0
        ),
        "a link for each answer": (by_order(GAP, HEARD, BOTH_WAYS, again), 0),
        "it counts links": (by_order(GAP, HEARD, BOTH_WAYS, said(HERE, "link_up", 20, link=LINK, times=1)), 0),
    }, tmp_path)  # fmt: skip


def test_history_asked_for_before_it_was_there_is_told_by_order(tmp_path: Path) -> None:
    news = handed(THERE, 5, 60, 61, 62)
    counted("no-history", {
        "after what was accepted later": (by_order(asked(HERE, 5, 30), handed(HERE, 1, 31, 32, 33), news), 1),
        "after what was accepted before": (by_order(asked(HERE, 5, 30), handed(HERE, 1, 29, 32, 33), news), 0),
        "before what was accepted later": (by_order(asked(HERE, 5, 30), handed(HERE, 1, 31, 70, 71), news), 0),
        "brought there by another": (
            by_order(asked(HERE, 5, 30), handed(HERE, 1, 31, 32, 33, peer=APP), news), 0
        ),
    }, tmp_path)  # fmt: skip
