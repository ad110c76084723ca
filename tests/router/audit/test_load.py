"""Files of any name and size are loaded, and the lines of overlapping files once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from samples.audit_logs import APP, LATE, B, Log, audited, states
from samples.judged_logs import Judged, ids, judged

from router.audit import load
from spark_analytics.judgement.line_grammar import LINE_BYTES_MAX


def log(parcels: int) -> Log:
    found = Log()
    for parcel in range(1, parcels + 1):
        found.accepted(parcel, [parcel])
        found.outward("delivered", [(parcel, 1)], parcel=parcel)
    found.state("stop", LATE)
    return found


NAMES = ["a b", "it's", 'q"', "[ab]*?", "$x;--", "日本", os.fsdecode(b"\xff\xfe")]


def named(log: Log, directory: Path) -> None:
    log.accepted(1, ids(log, 2))
    log.outward("delivered", [(1, 2)])
    log.state("stop", LATE)
    log.write(directory)


@pytest.fixture(scope="module")
def of_names(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """Return the audit of logs in directories of these names, each file read by DuckDB."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "SMALL_BYTES", -1)
        return judged(dict.fromkeys(map(ascii, NAMES), named), tmp_path_factory.mktemp("names"), folders=NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_paths_of_any_characters(name: str, of_names: Judged) -> None:
    assert of_names.states(ascii(name)) == {"owed": 2, "delivered": 2}


def test_a_pattern_in_a_name_means_no_other_file(tmp_path: Path) -> None:
    log(2).write(tmp_path / "a")
    directory = log(1).write(tmp_path / "[a]")
    assert states(audited(directory)) == {"owed": 1, "delivered": 1}


@pytest.mark.parametrize(("more", "is_read"), [(-1000, True), (0, False), (49 << 20, False)])
def test_a_file_with_a_line_longer_than_any_router_s_is_bad(tmp_path: Path, more: int, is_read: bool) -> None:
    found = log(2)
    found.state("join", text="x" * (LINE_BYTES_MAX + more))
    found.write(tmp_path / "long")
    other = Log(B)
    other.accepted(1, range(3))
    other.write(tmp_path / "other")
    summary = audited(tmp_path)
    assert [file["status"] for file in summary["files"]] == ([] if is_read else ["bad"])
    assert summary["owed"] == (5 if is_read else 3)


def test_overlapping_tails_and_segments_count_once(tmp_path: Path) -> None:
    whole = log(10)
    sealed = Log()
    sealed.lines = whole.lines[:7]
    sealed.write(tmp_path)
    for start in (0, 4, 9, 15):
        whole.write_tail(tmp_path, start)
    found = audited(tmp_path)
    assert states(found) == {"owed": 10, "delivered": 10}
    assert found["duplicates"] == 0 and found["by_router"][0]["deliveries"] == 10


def test_columns_and_words_of_newer_routers_are_borne(tmp_path: Path) -> None:
    directory = log(1).write_tail(tmp_path)
    [path] = directory.iterdir()
    path.write_bytes(path.read_bytes().replace(b'"duration_ns":0}', b'"duration_ns":0,"mood":[1,-2],"why":"so"}'))
    found = audited(directory)
    assert states(found) == {"owed": 1, "delivered": 1}


def test_the_recipient_of_an_event_that_no_parcel_names(tmp_path: Path) -> None:
    found = Log()
    found.outward("delivered", [(5, 3)], parcel=5, recipient=APP)
    summary = audited(found.write(tmp_path))
    assert (summary["owed"], summary["strays"]) == (0, 3)
