"""Files of any name and size come into the database, and those that overlap come once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from audit_logs import APP, LATE, Log, audited, states

from router.audit.database import AuditFailed


def log(parcels: int) -> Log:
    found = Log()
    for parcel in range(1, parcels + 1):
        found.accepted(parcel, [parcel])
        found.outward("delivered", [(parcel, 1)], parcel=parcel)
    found.state("stop", LATE)
    return found


@pytest.mark.parametrize("name", ["a b", "it's", 'q"', "[ab]*?", "$x;--", "日本", os.fsdecode(b"\xff\xfe")])
def test_paths_of_any_characters(tmp_path: Path, name: str) -> None:
    directory = log(2).write(tmp_path / name)
    assert states(audited(directory)) == {"owed": 2, "delivered": 2}


def test_a_pattern_in_a_name_means_no_other_file(tmp_path: Path) -> None:
    log(2).write(tmp_path / "a")
    directory = log(1).write(tmp_path / "[a]")
    assert states(audited(directory)) == {"owed": 1, "delivered": 1}


@pytest.mark.parametrize(("mib", "is_read"), [(40, True), (70, False)])
def test_a_line_that_is_longer_than_any_router_s(tmp_path: Path, mib: int, is_read: bool) -> None:
    """What no buffer of the usual size holds is read with a larger one, up to a limit."""
    found = log(2)
    found.state("join", text="x" * (mib << 20))
    directory = found.write(tmp_path)
    if is_read:
        assert states(audited(directory)) == {"owed": 2, "delivered": 2}
    else:
        with pytest.raises(AuditFailed, match=r"has a line of 734\d{5} bytes; at most 67108864 can be read"):
            audited(directory)


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
    path.write_bytes(path.read_bytes().replace(b'"link":2', b'"link":2,"mood":{"x":[1,"y"]}'))
    found = audited(directory)
    assert states(found) == {"owed": 1, "delivered": 1}


def test_the_recipient_of_an_event_that_no_parcel_names(tmp_path: Path) -> None:
    found = Log()
    found.outward("delivered", [(5, 3)], parcel=5, recipient=APP)
    summary = audited(found.write(tmp_path))
    assert (summary["owed"], summary["strays"]) == (0, 3)
