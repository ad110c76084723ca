"""What the logs of two routers tell of each other, and who was left out, is told by a stream as by the audit after each
batch: whichever log comes first, where a file comes late, comes twice, or takes back what was told."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from samples.audit_logs import APP, LATE, OTHER_APP, SECOND, START, Log, message_id, name
from samples.growing_logs import delivered, delivered_locally, said
from samples.ordered_logs import BEYOND, ORDERED
from samples.published_tables import published
from samples.two_logs import (
    NAMES_LEAVES,
    Case,
    G,
    Pair,
    asked_of_another,
    begun,
    clock_moved,
    copied_on,
    cut_off,
    handed,
    history,
    not_left,
    refused_all,
    refused_here,
    taken_again,
    told_beyond,
    unread,
)

from router.audit.engine import AuditSpan, audit
from router.audit.listing import list_logs
from router.core.wire.crypto import SigningKey
from spark_analytics.stream.run import run_stream

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.long]
DAY_S = 86_400
NOW = START + 5 * DAY_S * SECOND
PARTS = 3
TABLES = ("claims", "finding", "custody", "topology", "link_hour", "audit_window")


def brought(kind: str, end: float = LATE, carrier: float | None = None) -> Pair:
    """Let a router say that a neighbour brought three messages, of which that one's log lacks the second. `end`: of
    that log; `carrier`: when it accepted a message for the other router itself."""

    def write(here: Log, there: Log) -> None:
        ids = [f"{name(here.key)} {one}" for one in range(3)]
        unicast: dict[str, Any] = {"kind": "unicast", "group": None, "source": APP, "destination": OTHER_APP}
        begun(here)
        here.accepted(1, ids[:1], [], at=2, peer=name(there.key))
        here.accepted(2, ids[1:2], [], at=3, peer=name(there.key), **(unicast if kind == "unicast" else {}))
        here.accepted(3, ids[2:], [], at=4, peer=name(there.key))
        here.state("stop", LATE)
        begun(there, -9)
        there.accepted(1, [ids[0], ids[2]], [name(here.key)], at=1)
        there.outward("acked", [(1, 2)], 5, recipient=name(here.key))
        if carrier is not None:
            there.accepted(9, [f"{ids[0]} carrier"], [], carrier, **unicast | {"destination": name(here.key)})
        there.state("stop", end)

    return write


MARK = {"history_open_max": 4096, "groups_per_client_max": 1000}


def gone(log: Log) -> None:
    log.state("link_down", 2, peer=APP, link=7, standing="local")


def left_out(*later: Case, away: bool = False) -> Case:
    """Let an app that has joined be left out of two messages. `away`: it has gone."""

    def write(log: Log) -> None:
        begun(log, **(MARK if away else {}))
        log.state("link_up", 1, peer=APP, link=7, standing="local")
        log.state("link_up", 1, peer=OTHER_APP, link=2, standing="local")
        log.state("join", 1, subscriber=APP, group=G)
        if away:
            gone(log)
        for first in (1, 3):
            log.accepted(first, [f"{name(log.key)} {first}", f"{name(log.key)} {first + 1}"], [OTHER_APP], 4 + first)
            log.outward("forwarded", [(first, 2)], 4 + first, recipient=OTHER_APP, parcel=first)
            log.outward("delivered", [(first, 2)], 4 + first, recipient=OTHER_APP, parcel=first)
        for step in later:
            step(log)
        log.state("stop", LATE)

    return write


def dropped_away(log: Log) -> None:
    """Let two messages be accepted for an app that has gone, and be dropped as if it had left."""
    begun(log, **MARK)
    log.state("link_up", 1, peer=APP, link=7, standing="local")
    log.state("join", 1, subscriber=APP, group=G)
    gone(log)
    log.accepted(1, [f"{name(log.key)} {one}" for one in range(2)], [APP], 5)
    log.outward("dropped", [(1, 2)], 8, reason="left")
    log.state("stop", LATE)


def copied(log: Log) -> None:
    """Let a router bring a copy, as services alone do."""
    begun(log)
    log.state("link_up", 1, peer=OTHER_APP, link=7, standing="peer")
    log.accepted(1, [f"{name(log.key)} copy"], [APP], 4, kind="copy", peer=OTHER_APP)
    log.outward("forwarded", [(1, 1)], 4, recipient=APP, parcel=1)
    log.outward("delivered", [(1, 1)], 4, recipient=APP, parcel=1)
    log.state("stop", LATE)


def counted(log: Log) -> None:
    log.state("leave", 50, standing="local", times=3)


def owed_to_others(*later: Case) -> Case:
    """Let three messages be owed to nobody, and a unicast for a connected app to another one."""

    def write(log: Log) -> None:
        begun(log, met_percent=20)
        log.state("link_up", 1, peer=APP, link=7, standing="local")
        log.state("link_up", 1, peer=OTHER_APP, link=2, standing="local")
        unicast: dict[str, Any] = {"kind": "unicast", "group": None, "source": message_id("group")}
        log.accepted(1, [f"{name(log.key)} {one}" for one in range(3)], [], 3)
        log.accepted(4, [f"{name(log.key)} other"], [OTHER_APP], 5, destination=APP, **unicast)
        log.outward("forwarded", [(4, 1)], 5, recipient=OTHER_APP, parcel=4)
        log.outward("delivered", [(4, 1)], 6, recipient=OTHER_APP, parcel=4)
        for step in later:
            step(log)
        log.state("stop", LATE)

    return write


def renewed(log: Log) -> None:
    log.state("renewal", 50, old=APP, new=OTHER_APP, service="router")


def barred(log: Log) -> None:
    log.noted("pubsub_barred", 1, "pubsub:withholds", 60, router=APP, lost=3, withheld=1, for_s=3600)


def after_down(log: Log) -> None:
    """Let a message be delivered on a link that went down before the last two came."""
    begun(log)
    log.state("link_up", 1, peer=APP, link=2, standing="local")
    for first in (1, 2, 3):
        log.accepted(first, [f"{name(log.key)} {first}"], [APP], 4 * first)
        log.outward("forwarded", [(first, 1)], 4 * first, parcel=first)
        log.outward("delivered", [(first, 1)], 4 * first + 1, parcel=first)
        if first == 1:
            log.state("link_down", 6, peer=APP, link=2, standing="local")
    log.state("stop", LATE)


PAIRS: dict[str, Pair] = {
    "refused": handed,
    "not authorised": lambda here, there: handed(here, there, "not-authorised"),
    "expired": lambda here, there: handed(here, there, "ttl-expired", event="expired"),
    "joined": unread(2),
    "no history": asked_of_another(50, 60),
    "history": asked_of_another(50, 40),
    "news": asked_of_another(2000, 1990, 8),
    "history, by a clock set ahead": clock_moved(asked_of_another(50, 40), 20, 30),
    "joined later, by a clock set back": clock_moved(unread(55), 53, -50),
    "refused before, by a clock set back": clock_moved(lambda one, two: handed(one, two, at=60), 55, -30),
    "left meanwhile": unread(2, 30),
    "all": refused_all,
    "copies": copied_on("refused", "refused"),
    "one copy of two": copied_on("refused", "acked"),
    "a copy expired": copied_on("expired"),
    "nobody for a copy": copied_on("refused", joined=True),
    "turned away there": refused_here({"no-subscribers": 1}),
    "refused, and a false head": told_beyond(handed),
    "refused after the end": cut_off(handed, 45),
    "joined, and a false head": told_beyond(unread(2, **NAMES_LEAVES)),
    "leaves may be missing": told_beyond(unread(2)),
    "turned away there, and a false head": told_beyond(refused_here({"no-subscribers": 1}, **NAMES_LEAVES)),
    "unicast": brought("unicast"),
    "unicast long ago": brought("unicast", 2 * DAY_S),
    "multicast": brought("multicast", 2 * DAY_S),
    "restored": taken_again,
    "carried": brought("multicast", 2 * DAY_S, 2 * DAY_S - 1),
    **ORDERED,
    **BEYOND,
    "history, beyond": told_beyond(ORDERED["asked, a clock was set"]),
}
ALONE: dict[str, Case] = {
    "left out": left_out(),
    "excused": left_out(counted),
    "renewed later": left_out(renewed),
    "left out while away": left_out(away=True),
    "left out while away, renewed later": left_out(renewed, away=True),
    "left out while away, leaves counted": left_out(counted, away=True),
    "dropped while away": dropped_away,
    "barred": left_out(barred),
    "owed to others": owed_to_others(),
    "owed to others, renewed later": owed_to_others(renewed),
    "owed to others, unlimited later": owed_to_others(lambda log: begun(log, 80)),
    "copied": copied,
    "given to a service": history(),
    "dropped": not_left,
    "history": history(0, 1),
    "down": after_down,
}


def _files(directory: Path) -> tuple[list[list[Path]], list[list[Path]]]:
    """Write all logs; return the files of those that tell of others, in order, and of those others."""
    logs: dict[str, list[Log]] = {"here": [], "there": []}
    for case, write in PAIRS.items():
        pair = [Log(SigningKey(f"{one}{case}".encode().ljust(32)[:32])) for one in "ab"]
        write(*pair)
        for side, log in zip(logs, pair, strict=True):
            logs[side].append(log)
    for case, alone in ALONE.items():
        logs["here"].append(Log(SigningKey(case.encode().ljust(32)[:32])))
        alone(logs["here"][-1])
    here, there = ([_written(log, directory) for log in logs[side]] for side in logs)
    return here, there


def _written(log: Log, directory: Path) -> list[Path]:
    cuts = [len(log.lines) * part // PARTS for part in range(1, PARTS)]
    return sorted(log.write(directory / name(log.key)[:8], cuts).glob("events-*.jsonl"))


def _portions(here: Sequence[list[Path]], there: Sequence[list[Path]], order: str) -> list[list[Path]]:
    every = [*here, *there]
    if order == "one log first":
        return [
            [file for log in here for file in log],
            [log[0] for log in there],
            [f for log in there for f in log[1:]],
        ]
    if order == "the other log first":
        return [[file for log in there for file in log], [log[0] for log in here], [f for log in here for f in log[1:]]]
    return [
        [log[0] for log in every if log not in there] + [log[2] for log in there],
        [log[2] for log in here] + [log[0] for log in there],
        [log[1] for log in every],
    ]


@pytest.mark.parametrize("order", ["one log first", "the other log first", "middles last"])
def test_what_two_logs_tell_is_told_as_soon_as_it_can_be(spark: SparkSession, tmp_path: Path, order: str) -> None:
    logs, out, local = tmp_path / "logs", tmp_path / "out", tmp_path / "local"
    portions = _portions(*_files(tmp_path / "whole"), order)
    told: list[dict[str, Any]] = []
    for number, portion in enumerate([*portions, [portions[0][0]]]):
        for file in portion:
            target = logs / str(number) / file.parent.name / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
        found = run_stream(spark, [str(logs)], str(out), as_of=lambda: NOW)
        assert found is not None and not {"full", "rebuilt"} & set(found["run"])
        whole = said(audit(list_logs([logs]), AuditSpan(NOW), out=local))
        assert {key: said(found)[key] for key in whole if said(found)[key] != whole[key]} == {
            key: whole[key] for key in whole if said(found)[key] != whole[key]
        }, number
        assert delivered(out) == delivered_locally(local)
        for table in TABLES:
            assert published(out, table) == published(local, table), table
        told.append(found)
    counts = {row["claim"]: row["count"] for row in told[-1]["claims"]}
    assert counts.keys() >= {
        "refused-there",
        "joined-there",
        "joined-here",
        "left-out",
        "copied-by-nobody",
        "never-linked",
        "not-left",
        "no-history",
        "owed-wrongly",
        "linked-there",
    }
    wrongly = [row["count"] for row in told[-1]["claims"] if row["claim"] == "owed-wrongly"]
    assert sorted(wrongly) == [3, 4]
    by_claim = Counter(row["claim"] for row in told[-1]["claims"])
    assert (by_claim["left-out"], by_claim["not-left"]) == (17, 2)
    assert {row["count"] for row in told[-1]["unsent"]} == {1} and len(told[-1]["unsent"]) == 3
    assert [row["count"] for row in told[-1]["went_on"] if row["event"] == "expired"] == [1, 1]
    assert [row["count"] for row in told[-1]["went_on"] if row["event"] == "refused"] == [1] * 17
    assert len(told[-1]["barred"]) == 1
    assert len(told[0]["claims"]) < len(told[-1]["claims"]), "a later file shows a claim"
