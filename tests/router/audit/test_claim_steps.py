"""What several texts about claims read is made once; and which events a router knew of is told by the order of logs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import NamedTuple

import duckdb
import pytest
from fleets.shared import Fleets

from router.audit.claim_sources import LOG, REFUSALS, SOURCES, filled
from router.audit.database import Database
from router.audit.engine import AuditSpan, audit
from router.audit.listing import list_logs
from spark_analytics.judgement.door_sql import UNBORNE_MIN, is_blamed
from spark_analytics.judgement.link_sql import OWN
from spark_analytics.judgement.order_sql import known_steps
from spark_analytics.judgement.presence_sql import stay_steps

AS_OF_NS = 4_000_000_000 * 10**9


class Tie(NamedTuple):
    """Event `seq` of one router was before event `at_seq` of another, of the time `at_t`."""

    seq: int
    at_seq: int
    at_t: int


Asked = tuple[int, int | None]


def test_what_several_texts_read_is_made_once(fleets: Fleets, monkeypatch: pytest.MonkeyPatch) -> None:
    statements: list[str] = []
    run = Database.run

    def noted(tables: Database, statement: str | duckdb.Statement, values: Sequence[object] | None = None) -> None:
        statements.append(statement if isinstance(statement, str) else statement.query)
        run(tables, statement, values)

    monkeypatch.setattr(Database, "run", noted)
    audit(list_logs([fleets(10, 200, 0)]), AuditSpan(AS_OF_NS))
    made = ("declined", "pong", "refused", "room")
    once = {
        "log": LOG,
        "own": filled(OWN, made),
        "declined": SOURCES["declined"],
        "pong": SOURCES["pong"],
        "room": SOURCES["room"],
        **REFUSALS,
        **{name: filled(text, made).strip() for name, text in stay_steps()},
    }
    assert {name: sum(text in one for one in statements) for name, text in once.items()} == dict.fromkeys(once, 1)


def known(ties: Iterable[Tie], asked: Iterable[Asked]) -> dict[int, int]:
    """Return what the steps tell to have been known, of one router and another."""
    with duckdb.connect() as database:
        database.execute("CREATE TABLE tie (router BIGINT, other BIGINT, seq BIGINT, other_seq BIGINT, other_t BIGINT)")
        database.execute("CREATE TABLE asked (router BIGINT, other BIGINT, at_seq BIGINT, at_t BIGINT)")
        for tie in ties:
            database.execute("INSERT INTO tie VALUES (1, 2, ?, ?, ?)", tie)
        for one in asked:
            database.execute("INSERT INTO asked VALUES (1, 2, ?, ?)", one)
        steps = known_steps("known", "asked").format(tie="tie")
        return dict(database.execute(f"WITH {steps} SELECT at_seq, known_seq FROM known").fetchall())


def reference(ties: Sequence[Tie], asked: Iterable[Asked]) -> dict[int, int]:
    """Return the latest event that was before the transaction of each: of lines of its time at least none counts, and
    without a time each up to it."""
    found: dict[int, int] = {}
    for at_seq, at_t in asked:
        before = [tie.seq for tie in ties if tie.at_seq <= at_seq and tie.at_t != at_t]
        if before:
            found[at_seq] = max(before)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_what_was_known_is_the_latest_event_before_the_transaction(seed: int) -> None:
    chance = Random(seed)
    times = sorted(chance.choices(range(6), k=30))  # by event of the other router: its transactions
    ties = [Tie(chance.randrange(100), at, times[at]) for at in chance.choices(range(30), k=12)]
    for at in chance.sample(range(30), chance.randrange(1, 8)):
        one = at, chance.choice((None, times[at]))
        assert known(ties, [one]) == reference(ties, [one])


def test_a_line_without_a_time_counts_what_ties_that_very_line() -> None:
    assert known([Tie(5, 7, 70)], [(7, None)]) == {7: 5}
    assert known([Tie(5, 7, 70)], [(7, 70)]) == {}


def test_a_router_blames_neighbours_by_as_many_messages_as_are_judged() -> None:
    def said(count: int, reason: str = "peer-refused", **more: object) -> dict[str, object]:
        return {"router": "a", "event": "refused", "reason": reason, "at_door": False, "count": count, **more}

    assert is_blamed([said(UNBORNE_MIN - 1), said(1, "blocked")])
    assert not is_blamed([said(UNBORNE_MIN - 1), said(1, router="b")])
    assert not is_blamed([said(UNBORNE_MIN, "duplicate")])
    assert not is_blamed([said(UNBORNE_MIN, at_door=True)])
    assert not is_blamed([said(UNBORNE_MIN, event="expired")])
    assert not is_blamed([])
