"""The directory of `--out`: every table, the summary, a page; and what it may replace."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest
from samples.audit_logs import APP, LATE, OTHER_APP, START, A, B, Log, message_id, name

from router.audit.database import AuditFailed
from router.audit.engine import AuditSpan, audit
from router.audit.listing import list_logs
from router.audit.publish import FILES, GOLD, page
from router.audit.put_in_place import give_name
from router.core.wire.text import key_text
from spark_analytics.judgement.schema import STATES


def logs(directory: Path) -> Path:
    here, there = Log(A), Log(B)
    here.accepted(1, range(3), [APP, name(B)])
    here.outward("delivered", [(1, 2)])
    here.outward("acked", [(1, 3)], recipient=name(B))
    here.state("route_add", destination=APP, neighbour=OTHER_APP)
    here.turned("refused", 3, "bad-signature")
    here.state("stop", LATE)
    there.accepted(1, range(2), [OTHER_APP], at=0.5)
    there.outward("expired", [(1, 2)], recipient=OTHER_APP)
    there.state("stop", LATE)
    here.write(directory / "a")
    there.write(directory / "b")
    (directory / "b" / "events-0000000000000099.jsonl").write_text("rubbish")
    return directory


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Return the directory of an audit, which no test changes, and its summary."""
    directory = tmp_path_factory.mktemp("made")
    out = directory / "new" / "out"
    return out, audit(list_logs([logs(directory / "logs")]), AuditSpan(START + LATE * 10**9), out=out)


@pytest.fixture
def copy(made: tuple[Path, dict[str, Any]], tmp_path: Path) -> Path:
    """Return a copy of that directory."""
    return shutil.copytree(made[0], tmp_path / "out")


def rows(out: Path, table: str) -> list[dict[str, Any]]:
    found = duckdb.execute("FROM read_parquet(?) ORDER BY ALL", [str(out / f"{table}.parquet")])
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def test_every_file_and_nothing_else(made: tuple[Path, dict[str, Any]]) -> None:
    out, summary = made
    expected = {*(f"{table}.parquet" for table in GOLD), "summary.json", "report.html"}
    assert {path.name for path in out.iterdir()} == expected <= FILES
    assert [path.name for path in out.parent.iterdir()] == ["out"]
    assert json.loads((out / "summary.json").read_text()) == summary
    assert "<html" in (out / "report.html").read_text()[:2000]


def test_delivery(made: tuple[Path, dict[str, Any]]) -> None:
    found = {(row["router"], row["recipient"]): row for row in rows(made[0], "delivery")}
    row = found[name(A), APP]
    assert (row["parcel"], row["seq"], row["t"], row["owed"], row["delivered"]) == (1, 1, START, 3, 2)
    assert (row["kind"], row["signer"], row["destination"], row["peer"]) == (
        "multicast", message_id("group"), None, message_id("peer"),
    )  # fmt: skip
    assert row["unaccounted"] == 1 and row["hole_first"] is None
    assert found[name(B), OTHER_APP]["unknown"] == 0 and found[name(B), OTHER_APP]["expired"] == 2
    totals = {state: sum(row[state] for row in found.values()) for state in ("owed", *STATES)}
    assert totals == {state: made[1][state] for state in totals}


def test_message_over_all_routers(made: tuple[Path, dict[str, Any]]) -> None:
    found = {row["id"]: row for row in rows(made[0], "message")}
    one, three = found[message_id(0)], found[message_id(2)]
    assert (one["routers"], one["first_t"], one["owed"], one["delivered"], one["acked"], one["expired"]) == (
        2, START, 3, 1, 1, 1,
    )  # fmt: skip
    assert (three["routers"], three["owed"], three["acked"], three["unaccounted"]) == (1, 2, 1, 1)
    assert sum(row["owed"] for row in found.values()) == made[1]["owed"]
    assert all(row["owed"] == sum(row[state] for state in STATES) for row in found.values())


def test_the_other_tables(made: tuple[Path, dict[str, Any]]) -> None:
    out, summary = made
    assert set(GOLD) == {path.stem for path in out.glob("*.parquet")}
    assert [(row["subject"], row["neighbour"]) for row in rows(out, "route_change")] == [(APP, OTHER_APP)]
    assert [(row["reason"], row["count"], row["lines"]) for row in rows(out, "abuse_hour")] == [("bad-signature", 3, 1)]
    assert [row["path"].endswith("99.jsonl") for row in rows(out, "quarantine")] == [True]
    assert [(row["router"], row["whole"]) for row in rows(out, "log_coverage")] == [
        (log["router"], log["whole"]) for log in summary["logs"]
    ]
    assert {row["judged"] for row in rows(out, "audit_window") if row["router"] == name(A)} == {True}
    assert sum(row["count"] for row in rows(out, "hop_latency")) == 5
    assert [row["acked"] for row in rows(out, "custody")] == [3]
    assert [row["verdict"] for row in rows(out, "audit_run")] == [summary["verdict"]]


def test_an_earlier_audit_is_replaced(copy: Path, tmp_path: Path) -> None:
    assert {row["router"] for row in rows(copy, "delivery")} == {name(A), name(B)}
    (copy / "report.html").write_text("old")
    audit(list_logs([logs(tmp_path / "logs") / "a"]), AuditSpan(START), out=copy)
    assert (copy / "report.html").read_text() != "old"
    assert {row["router"] for row in rows(copy, "delivery")} == {name(A)}


def test_a_directory_with_other_things_is_left_alone(copy: Path, tmp_path: Path) -> None:
    (copy / "letter.txt").write_text("mine")
    before = (copy / "summary.json").read_bytes()
    with pytest.raises(AuditFailed, match=r"letter\.txt"):
        audit(list_logs([logs(tmp_path / "logs")]), AuditSpan(START), out=copy)
    assert (copy / "letter.txt").read_text() == "mine" and (copy / "summary.json").read_bytes() == before


def test_an_earlier_audit_stays_if_the_new_one_cannot_take_its_place(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "summary.json").touch()
    with pytest.raises(FileNotFoundError):
        give_name(tmp_path / "new", tmp_path / "out", tmp_path / "old")
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "summary.json"]


def test_the_page_spells_keys_as_all_commands_do_and_leaves_ids() -> None:
    router, recipient, identity = ("a" * 64, "b" * 64, "c" * 64)
    finding = {"level": "bad", "text": f"The router {router} lost {identity}.", "remedy": ""}
    summary = {"logs": [{"router": router, "whole": True}], "queues": [], "findings": [finding], "lost": [
        {"router": router, "recipient": recipient, "id": identity, "count": 1}]}  # fmt: skip
    shown = page(summary)
    assert key_text("addr", bytes.fromhex(router)) in shown and key_text("addr", bytes.fromhex(recipient)) in shown
    assert router not in shown and recipient not in shown and identity in shown
