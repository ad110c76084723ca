"""The ledger by value: it tells of a message that is lost, doubled, out of order or of nobody, and of nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from router.chaos.app import read_lines
from router.chaos.audited import FleetAudit, disagreements
from router.chaos.ledger import (
    LATE_S,
    Judged,
    Ledger,
    NodeRestore,
    RefusedEntry,
    ShownEntry,
    TakenEntry,
    TriedEntry,
    next_number,
)
from router.chaos.pools import PoolOffer, missing
from router.chaos.shape import fleet_shape

SHAPE = fleet_shape(5)
LATER_S = 1000.0
NO_CAPD = "capd no longer holds 1 message that it accepted, first a"
NO_DMQ = "dmq no longer holds 1 message that it accepted, first b"


@dataclass
class Written:
    """A ledger in which everybody has read everything: two messages of each app, `n` taken at `n` seconds."""

    ledger: Ledger = field(default_factory=lambda: Ledger(SHAPE))

    def __post_init__(self) -> None:
        for by, account in self.ledger.accounts.items():
            for n in (1, 2):
                account.enter(TriedEntry(n))
                account.enter(TakenEntry(n, f"{by}/{n}", float(n), LATER_S + 1))
        for reader in self.ledger.accounts:
            for by in SHAPE.nodes:
                for n in (1, 2) if by != reader else ():
                    self.show(reader, by, n)

    def show(self, reader: str, by: str, n: int, **more: Any) -> None:
        self.ledger.accounts[reader].enter(
            ShownEntry(by, n, more.pop("id", f"{by}/{n}"), more.pop("at_s", n + 0.5), **more)
        )

    def forget(self, reader: str, by: str, n: int) -> None:
        shown = self.ledger.accounts[reader].shown
        shown[:] = [one for one in shown if (one.by, one.n) != (by, n)]

    def judge(self, now_s: float = LATER_S) -> Judged:
        return self.ledger.judge(now_s)


def test_a_ledger_in_which_all_came_is_good() -> None:
    found = Written().judge()
    assert (found.accepted, found.owed, found.shown, found.failures()) == (10, 40, 40, [])


def test_a_message_that_did_not_come_is_lost() -> None:
    one = Written()
    one.forget("edge-a", "edge-b", 2)
    assert one.judge().lost == ["message 2 of edge-b, edge-b/2, did not come to edge-a"]
    assert one.ledger.waits(LATER_S) == 1 and "1 lost" in one.judge().failures()[0]


def test_what_was_published_before_all_had_joined_is_owed_to_nobody() -> None:
    one = Written()
    one.forget("edge-a", "edge-b", 1)
    one.forget("edge-c", "edge-b", 1)
    one.show("edge-c", "edge-b", 1)  # from the history, after message 2
    one.ledger.since_s = 1.5
    found = one.judge()
    assert (found.accepted, found.owed, found.failures()) == (5, 20, [])


def test_a_message_whose_time_is_over_need_not_come() -> None:
    one = Written()
    one.forget("edge-a", "edge-b", 2)
    found = one.judge(LATER_S + 1)
    assert (found.lost, found.expired, found.shown) == ([], 1, 39)


def test_a_message_that_was_not_taken_is_owed_to_nobody() -> None:
    one = Written()
    account = one.ledger.accounts["edge-b"]
    account.enter(TriedEntry(3))
    account.enter(RefusedEntry(3, "disk-full"))
    account.enter(TriedEntry(4))  # the app was killed before it heard what became of it
    one.show("edge-a", "edge-b", 4)
    found = one.judge()
    assert (found.failures(), found.owed, found.refused) == ([], 40, 1)


def test_a_message_that_is_shown_twice_is_doubled_unless_it_is_marked() -> None:
    one = Written()
    one.show("edge-a", "edge-b", 2, marked=True)
    assert (one.judge().failures(), one.judge().marked) == ([], 1)
    one.show("edge-a", "edge-b", 2)
    assert one.judge().doubled == ["message 2 of edge-b, edge-b/2, at edge-a"]


def test_a_loss_and_a_double_do_not_cancel() -> None:
    one = Written()
    one.forget("edge-a", "edge-b", 2)
    one.show("edge-a", "edge-b", 1)
    assert len(one.judge().failures()) == 2


def test_a_publishers_order_is_kept_unless_a_message_is_marked_as_late() -> None:
    one = Written()
    one.forget("core-2", "edge-b", 1)
    one.show("core-2", "edge-b", 1)
    assert one.judge().disordered == ["message 1 of edge-b came to core-2 after message 2"]
    one.forget("core-2", "edge-b", 1)
    one.show("core-2", "edge-b", 1, late=True)
    assert one.judge().failures() == []


@pytest.mark.parametrize(("by", "n", "id"), [("edge-b", 3, "edge-b/3"), ("edge-b", 2, "other"), ("nobody", 1, "x")])
def test_a_message_that_nobody_published_so_is_strange(by: str, n: int, id: str) -> None:
    one = Written()
    one.show("edge-a", by, n, id=id)
    assert len(one.judge().strange) == 1


@pytest.mark.parametrize(
    ("node", "saved_s", "lost_s", "is_excused"),
    [
        ("core-2", 0.5, 2.0, True),
        ("edge-b", 0.5, 5.0, True),
        ("core-2", 0.5, 1.9, False),
        ("edge-c", 0.5, 5.0, False),
        ("core-2", LATE_S + 2.0, LATE_S + 5.0, True),
        ("core-2", LATE_S + 2.1, LATE_S + 5.0, False),
    ],
)
def test_a_restore_excuses_what_was_under_way_through_that_node(
    node: str, saved_s: float, lost_s: float, is_excused: bool
) -> None:
    one = Written()
    one.forget("edge-a", "edge-b", 2)
    one.ledger.restores.append(NodeRestore(node, saved_s, lost_s))
    found = one.judge()
    assert (found.excused, len(found.lost)) == ((1, 0) if is_excused else (0, 1))


@pytest.mark.parametrize(("lost_s", "is_allowed"), [(3.0, True), (2.0, False), (5.0, False)])
def test_a_restore_between_two_showings_allows_the_second_unmarked(lost_s: float, is_allowed: bool) -> None:
    one = Written()
    one.show("edge-a", "edge-b", 2, at_s=4.0)  # it came first at 2.5
    one.ledger.restores.append(NodeRestore("core-1", 1.0, lost_s))
    found = one.judge()
    assert (found.again, len(found.doubled)) == ((1, 0) if is_allowed else (0, 1))


def test_lines_are_read_as_they_are_written_but_for_a_torn_one() -> None:
    lines = [
        TriedEntry(1),
        TakenEntry(1, "ab", 2.0, 3.0),
        ShownEntry("x", 1, "cd", 4.0, True, False),
        RefusedEntry(2, "left"),
    ]
    data = b"".join(msgspec.json.encode(one) + b"\n" for one in lines)
    assert read_lines(data) == lines and read_lines(data[:-3]) == lines[:-1] and read_lines(b"") == []


def test_an_app_uses_no_number_twice() -> None:
    account = Ledger(SHAPE).accounts["core-1"]
    assert next(next_number(account)) == 1
    account.enter(TriedEntry(7))
    assert next(next_number(account)) == 8


@pytest.mark.parametrize(
    ("held", "restores", "now_s", "lost"),
    [
        ({"capd": {"a"}, "dmq": {"b"}}, [], 50.0, []),
        ({"capd": {"a"}}, [], 50.0, [NO_DMQ]),
        (
            {"capd": {"b"}, "dmq": {"a"}},
            [],
            50.0,
            [NO_CAPD, NO_DMQ],
        ),
        ({}, [], 100.0, [NO_DMQ]),
        ({"dmq": {"b"}}, [NodeRestore("core-2", 11.5, 15.0)], 50.0, []),
        ({"dmq": {"b"}}, [NodeRestore("core-2", 12.5, 15.0)], 50.0, [NO_CAPD]),
        ({"dmq": {"b"}}, [NodeRestore("core-2", 5.0, 9.5)], 50.0, [NO_CAPD]),
    ],
)
def test_what_a_pool_accepted_must_be_held(
    held: dict[str, set[str]], restores: list[NodeRestore], now_s: float, lost: list[str]
) -> None:
    offers = [PoolOffer("capd", "a", 10.0, 12.0, 100.0), PoolOffer("dmq", "b", 20.0, 22.0, 200.0)]
    assert missing(offers, held, restores, now_s) == lost


GOOD = {"unaccounted": 0, "residual": 0, "contradictions": 0, "verdict": "good", "findings": []}


def audit(ledger: Ledger, summary: dict[str, Any] | None = None, **more: Any) -> FleetAudit:
    """Return the audit that agrees with the ledger, but for `more`."""
    ids = frozenset(one.id for account in ledger.accounts.values() for one in account.taken.values())
    delivered = {name: len(account.ids_shown) for name, account in ledger.accounts.items()}
    return FleetAudit(
        GOOD | (summary or {}), more.get("ids", ids), delivered | more.get("delivered", {}), more.get("expired", {})
    )


def test_an_audit_that_agrees_is_believed() -> None:
    ledger = Written().ledger
    assert disagreements(ledger, audit(ledger), LATER_S) == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"summary": {"unaccounted": 3}}, "the audit counts 3 messages as unaccounted for"),
        ({"summary": {"residual": -1}}, "the audit counts -1 messages as residual"),
        ({"summary": {"contradictions": 2}}, "the audit counts 2 messages with two different ends"),
        ({"summary": {"verdict": "bad", "findings": [{"level": "bad", "text": "a fork"}]}}, "the audit says: a fork"),
        ({"delivered": {"edge-a": 9}}, "the audit counts 9 messages settled by the app of edge-a, which was shown 8"),
        ({"delivered": {"edge-a": 7}}, "the app of edge-a was shown 8 messages, of which the audit has 7 as settled"),
        ({"ids": frozenset({"edge-a/1"})}, "the audit does not know 2 messages that core-1 took custody of"),
    ],
)
def test_an_audit_that_does_not_agree_is_told(more: dict[str, Any], said: str) -> None:
    ledger = Written().ledger
    assert any(one.startswith(said) for one in disagreements(ledger, audit(ledger, **more), LATER_S))


def test_what_an_app_was_shown_before_it_was_killed_may_have_expired_unsettled() -> None:
    ledger = Written().ledger
    last = max(account.taken[2].until_s for account in ledger.accounts.values())
    unsettled = audit(ledger, delivered={"edge-a": 7}, expired={"edge-a": 1})
    assert disagreements(ledger, unsettled, last) == []
    assert len(disagreements(ledger, unsettled, last - 1)) == 1  # its time was not over
    assert len(disagreements(ledger, audit(ledger, delivered={"edge-a": 7}), last)) == 1  # it has no end there
    assert len(disagreements(ledger, audit(ledger, delivered={"edge-a": 6}, expired={"edge-a": 1}), last)) == 1


def test_a_restored_node_may_have_forgotten_what_it_took_and_what_was_settled_there() -> None:
    ledger = Written().ledger
    ledger.restores.append(NodeRestore("edge-a", 0.0, 5.0))
    known = audit(ledger).ids - {"edge-a/1", "edge-a/2"}
    assert disagreements(ledger, audit(ledger, ids=known, delivered={"edge-a": 3}), LATER_S) == []
    assert disagreements(ledger, audit(ledger, ids=known, delivered={"edge-a": 8 + 2}), LATER_S) == []
    assert len(disagreements(ledger, audit(ledger, ids=known, delivered={"edge-a": 8 + 3}), LATER_S)) == 1
