"""What services owed and what became of it, by the local engine."""

from __future__ import annotations

from pathlib import Path

from samples.audit_logs import A, Log, audited, name
from samples.handovers import EVENTS, STATES, SUMS


def written(log: Log) -> None:
    for at, (fields, reason) in enumerate(EVENTS):
        log.noted("dmq_accepted", 1, reason, at, **fields)


def test_each_message_owed_has_one_state_at_each_recipient(tmp_path: Path) -> None:
    log = Log()
    written(log)
    log.state("stop", 5000)
    found = audited(log.write(tmp_path))
    assert found["services"] == [{"router": name(A), **SUMS}]
    ends = {(one["state"], one["recipient"], one["reason"]): one["count"] for one in found["service_ends"]}
    assert ends == {
        ("ended", "first", "dmq:set-aside"): 1, ("ended", "second", "dmq:expired"): 1,
        ("ended", "third", "dmq:consumer-gone"): 1, ("unaccounted", "first", None): 1,
    }  # fmt: skip
    assert sum(SUMS[state] for state in ("done", "ended", "pending", "unknown", "unaccounted")) == len(STATES)  # type: ignore[misc]


def test_what_follows_a_hole_in_the_log_is_unknown(tmp_path: Path) -> None:
    log = Log()
    written(log)
    log.state("lost", 4000)
    log.state("stop", 5000)
    log.write(tmp_path, (len(EVENTS), len(EVENTS) + 1))
    sorted(tmp_path.iterdir())[1].unlink()
    found = audited(tmp_path)["services"][0]
    assert (found["unknown"], found["unaccounted"], found["pending"]) == (3, 0, 0)
    assert (found["done"], found["ended"], found["doubled"]) == (SUMS["done"], SUMS["ended"], SUMS["doubled"])
