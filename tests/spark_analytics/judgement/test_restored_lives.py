"""A restored router's log beside what its life before wrote since the snapshot is no second history."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from samples.log_facts import evidence
from samples.segments import ROUTER, events_of, last_line, numbered, prune, sealed, tail, write_log

from router.core.log.events import RouterChange
from router.core.log.life import LEAP_MIN as LEAST
from router.core.log.life import Life
from router.core.log.line import Line, gaps
from router.core.log.segment import file_name
from spark_analytics.judgement.comparison import UNKNOWN, Head, compared
from spark_analytics.judgement.evidence import Evidence, Gap, Hole, Witness, witnessed
from spark_analytics.judgement.footer import decode_line
from spark_analytics.judgement.lives import CLOCKS_S, UNTRUE, Restore
from spark_analytics.judgement.schema import LEAP_MIN

SNAPSHOT_S, RESTORED_S = 1_790_000_000, 1_790_100_000
WHY = (
    "restored on 2026-09-22 18:00:00 UTC from a snapshot of 2026-09-21 14:13:20 UTC; "
    "what it did in between is not in its log"
)


def begun(after: int, first: int, life: int = 1, at_ns: int = 9) -> list[Line]:
    """Return the first lines of a life that begins at event `first`: its start, and an event."""
    fields = Life(life, SNAPSHOT_S, RESTORED_S, after, first).told()
    found = events_of(RouterChange(at_ns, 5, "start", (("arrival", 1), *fields)), first_seq=first)
    return [*found, *numbered(first + 1, first + 1, at_ns)]


def digest_of(path: Path) -> str:
    return str(decode_line(last_line(path))["sha256"])


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Write what the life before wrote: the events 1 to 8 in four segments, and a tail of 9 and 10."""
    log = write_log(tmp_path / "old")
    (log / "tail-9.jsonl").write_bytes(tail(numbered(9, 10), digest_of(log / file_name(7))))
    return log


def restored(directory: Path, old: Path, life: int = 1) -> Path:
    """Write the log of the node restored from a snapshot of when events 1 to 4 were sealed, and 5 was not."""
    directory.mkdir()
    for seq in (1, 3):
        (directory / file_name(seq)).write_bytes((old / file_name(seq)).read_bytes())
    first = life * LEAP_MIN + 1_000
    lines = begun(5, first, life, at_ns=9 + life)
    found = [*numbered(5, 5), *gaps(6, lines[0]), *lines]
    (directory / file_name(5)).write_bytes(sealed(found, digest_of(directory / file_name(3))))
    return directory


def statuses(found: Evidence) -> dict[str, str]:
    return {f"{Path(file.path).parent.name}/{file.first_seq}": file.status for file in found.files}


def test_the_leap_is_that_of_the_router() -> None:
    assert LEAP_MIN == LEAST


def test_what_the_life_before_wrote_since_is_former(old: Path, tmp_path: Path) -> None:
    new = restored(tmp_path / "new", old)
    first = LEAP_MIN + 1_000
    for order in permutations((old, new)):
        found = witnessed(evidence(*order), [Gap(ROUTER, 6, first - 6)], [])
        assert found.problems == ()
        assert found.restores == (Restore(ROUTER, 1, SNAPSHOT_S, RESTORED_S, 5, first),)
        assert statuses(found) == {
            "new/1": "good", "new/3": "good", "new/5": "good", "old/1": "copy", "old/3": "copy", "old/5": "former",
            "old/7": "former", "old/9": "former",
        }  # fmt: skip
        assert found.holes == (Hole(ROUTER, 6, first - 1, WHY),)
        assert not found.logs[0].whole and found.logs[0].last == first + 1


def test_a_home_restored_twice_from_one_snapshot_goes_by_its_last_life(old: Path, tmp_path: Path) -> None:
    one, two = restored(tmp_path / "one", old, 1), restored(tmp_path / "two", old, 2)
    found = evidence(old, one, two)
    assert {file.path for file in found.files if file.status == "former"} == {
        *(f"{old}/{name}" for name in (file_name(5), file_name(7), "tail-9.jsonl")), f"{one}/{file_name(5)}",
    }  # fmt: skip
    assert "fork" not in statuses(found).values() and found.problems == ()


def test_a_life_restored_from_a_snapshot_of_the_life_before_follows_it(old: Path, tmp_path: Path) -> None:
    new = restored(tmp_path / "new", old)
    after, first = LEAP_MIN + 1_002, 3 * LEAP_MIN
    lines = begun(after, first, 2, at_ns=20)
    found = [*numbered(after, after), *gaps(after + 1, lines[0]), *lines]
    (new / file_name(after)).write_bytes(sealed(found, digest_of(new / file_name(5))))
    told = evidence(new)
    assert set(statuses(told).values()) == {"good"} and told.problems == ()
    assert [one.after_seq for one in told.restores] == [5, after]


def test_unsealed_events_of_both_lives_are_told_apart(old: Path, tmp_path: Path) -> None:
    """The homes of before and after are audited together, with what no segment holds yet."""
    new = tmp_path / "new"
    new.mkdir()
    first = LEAP_MIN + 1_000
    (new / "tail-5.jsonl").write_bytes(tail(numbered(5, 5)))
    (new / f"tail-{first}.jsonl").write_bytes(tail(begun(5, first)))
    for path in (old / file_name(5), old / file_name(7), old / "tail-9.jsonl"):
        path.unlink()
    (old / "tail-5.jsonl").write_bytes(tail(numbered(5, 8)))
    found = evidence(old, new)
    assert statuses(found) == {
        "old/1": "good", "old/3": "good", "old/5": "former", "new/5": "tail", f"new/{first}": "tail",
    }  # fmt: skip
    assert found.holes == (Hole(ROUTER, 6, first - 1, WHY),) and found.problems == ()


def test_what_neighbours_saw_of_the_life_before_is_no_rewriting(old: Path, tmp_path: Path) -> None:
    new = restored(tmp_path / "new", old)
    seen = [Witness("ab" * 32, ROUTER, seq, digest_of(old / file_name(seq - 1))) for seq in (4, 6, 8)]
    found = witnessed(evidence(new), [], seen)
    assert found.problems == () and not any("rewritten" in hole.why for hole in found.holes)
    [head] = compared([Head("a", ROUTER, 8, digest_of(old / file_name(7)))], found.seals)
    assert head.result == UNKNOWN
    prune(new, *(file_name(seq) for seq in (1, 3, 5)))
    assert witnessed(evidence(new), [], seen).problems == ()


@pytest.mark.parametrize(
    ("seq", "told_s", "when"),
    [
        (8, RESTORED_S + CLOCKS_S + 1, "on 2026-09-25 18:00:01 UTC, after the restore of 2026-09-22 18:00:00 UTC"),
        (6, SNAPSHOT_S - CLOCKS_S - 1, "on 2026-09-18 14:13:19 UTC, before the snapshot of 2026-09-21 14:13:20 UTC"),
        (8, RESTORED_S + CLOCKS_S, None),
        (6, SNAPSHOT_S - CLOCKS_S, None),
        (4, SNAPSHOT_S - 10**6, None),
        (4, RESTORED_S + 10**6, None),
    ],
)
def test_a_restore_that_a_neighbour_contradicts_is_told(
    seq: int, told_s: int, when: str | None, old: Path, tmp_path: Path
) -> None:
    """Events between the lives were written after the snapshot and before the restore, and at no other time."""
    new, who = restored(tmp_path / "new", old), "ab" * 32
    seen = Witness(who, ROUTER, seq, digest_of(old / file_name(seq - 1)), told_s * 10**9)
    found = witnessed(evidence(new), [Gap(ROUTER, 6, LEAP_MIN + 994)], [seen])
    [*denied, honest] = found.holes
    assert honest == Hole(ROUTER, 6, LEAP_MIN + 999, WHY)
    said = f"the neighbour {who} was told {when}, that this log reaches to {seq}: {UNTRUE}"
    assert denied == ([Hole(ROUTER, 6, seq, said)] if when else [])


def test_two_nodes_that_go_on_from_one_log_are_two_histories_also_in_a_later_life(old: Path, tmp_path: Path) -> None:
    new, copied = restored(tmp_path / "new", old), restored(tmp_path / "copied", old)
    seq = LEAP_MIN + 1_002
    for directory, at_ns in ((new, 30), (copied, 40)):
        (directory / file_name(seq)).write_bytes(sealed(numbered(seq, seq, at_ns), digest_of(directory / file_name(5))))
    assert [file.first_seq for file in evidence(new, copied).files if file.status == "fork"] == [seq, seq]


@pytest.mark.parametrize(
    "said",
    [
        {"life_seq": 7}, {"after_seq": LEAP_MIN + 900}, {"snapshot_s": -1}, {"restored_s": 1 << 40}, {"life": "1"},
        {"after_seq": True}, {"life_seq": 9 * LEAP_MIN},
    ],
)  # fmt: skip
def test_a_restore_whose_numbers_do_not_fit_excuses_nothing(said: dict[str, Any], old: Path, tmp_path: Path) -> None:
    new = restored(tmp_path / "new", old)
    first = LEAP_MIN + 1_000
    [start, *rest] = begun(5, first)
    start = replace(start, fields={**(start.fields or {}), **said})
    found = [*numbered(5, 5), *gaps(6, start), start, *rest]
    (new / file_name(5)).write_bytes(sealed(found, digest_of(new / file_name(3))))
    told = evidence(old, new)
    assert told.restores == () and "fork" in statuses(told).values()
