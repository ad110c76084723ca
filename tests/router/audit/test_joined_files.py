"""Small files are read as one, and what counts is the same as if each were read by itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from samples.audit_logs import A, B, Log, audited
from samples.packed_logs import pack_all

from router.audit import joined_files, load
from router.audit.joined_files import JOINED_BYTES, MARK, batches, join
from router.core.log.line import Line


@given(st.lists(st.integers(0, JOINED_BYTES), max_size=12))
def test_batches_have_every_item_once_in_order_and_a_bound(sizes: list[int]) -> None:
    found = list(batches(enumerate(sizes)))
    assert [one for batch in found for one in batch] == list(range(len(sizes)))
    assert all(sum(sizes[one] for one in batch) <= JOINED_BYTES for batch in found)


def test_every_line_gets_the_number_of_its_file(tmp_path: Path) -> None:
    texts = ('{"a":1}\n{"b":2}\n', '{"c":"\\n{"}', '{"@file":1}\n', "[1]\n", "", r'{"\u0040file":1}')
    for number, text in enumerate(texts):
        (tmp_path / str(number)).write_text(text)
    files = [(number, str(tmp_path / str(number))) for number in range(len(texts) + 1)]
    assert join(files, tmp_path / "joined") == {2, 3, 4, 5, 6}, "two have the mark, two begin otherwise, one is missing"
    rows = [json.loads(line) for line in (tmp_path / "joined").read_text().splitlines()]
    assert rows == [{MARK: 0, "a": 1}, {MARK: 0, "b": 2}, {MARK: 1, "c": "\n{"}]


def test_file_that_has_grown_is_read_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined_files, "SMALL_BYTES", 7)
    (tmp_path / "0").write_text('{"a":12}')
    assert join([(0, str(tmp_path / "0"))], tmp_path / "joined") == {0}


def segmented(directory: Path, change: str) -> Path:
    """Write two routers' logs in short segments, one of which says what it may not."""
    for router in (A, B):
        log = Log(router)
        for number in range(12):
            log.accepted(1 + number, range(number, number + 1))
            log.outward("delivered", [(1 + number, 1 + number)])
        if router == A and change:
            log.lines[9] = changed(log.lines[9], change)
        log.write(directory / str(log.key.public.hex()[:4]), range(3, len(log.lines), 3))
    return directory


@pytest.mark.parametrize("most", [joined_files.PACKED_SMALL_BYTES, -1])
def test_audit_of_compressed_logs_is_that_of_the_plain_ones(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = audited(segmented(tmp_path, "mark"))
    pack_all(tmp_path)
    monkeypatch.setattr(load, "PACKED_SMALL_BYTES", most)
    found = audited(tmp_path)
    assert found["owed"] > 0 and len(found["files"]) == 1
    for summary in (plain, found):
        del summary["run"]
    assert json.loads(json.dumps(found).replace(".jsonl.zst", ".jsonl")) == json.loads(json.dumps(plain))


def test_one_damaged_compressed_file_is_a_problem_and_the_others_count(tmp_path: Path) -> None:
    segmented(tmp_path, "")
    torn = pack_all(tmp_path)[1]
    torn.write_bytes(torn.read_bytes()[:-4])
    found = audited(tmp_path)
    assert [(row["path"], row["status"]) for row in found["files"]] == [(str(torn), "bad")]
    assert [text for text in found["problems"] if "cut off: its compression ends" in text] == found["problems"]
    assert found["owed"] > 0 and found["verdict"] == "bad" and [log["whole"] for log in found["logs"]].count(True) == 1


def changed(line: Line, change: str) -> Line:
    fields: dict[str, dict[str, Any]] = {
        "router": {"router": "ab" * 32},
        "boot": {"boot": "no boot"},
        "mark": {"fields": {"@file": "0"}},
    }
    return replace(line, **fields[change])


@pytest.mark.parametrize("change", ["", "router", "boot", "mark"])
def test_audit_is_the_same_whether_files_are_joined_or_not(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = segmented(tmp_path, change)
    joined = audited(logs)
    monkeypatch.setattr(load, "SMALL_BYTES", -1)
    each = audited(logs)
    assert joined["owed"] > 0 and len(joined["files"]) == len(each["files"])
    for summary in (joined, each):
        del summary["run"]
    assert joined == each
    assert (joined["verdict"] == "bad") is bool(change)
