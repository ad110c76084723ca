"""The files that are found at given paths, and the messages about paths without any."""

from __future__ import annotations

from pathlib import Path

import pytest

from router.audit.listing import LOOP, Listing, NothingToRead, list_logs
from spark_analytics.judgement.evidence import NO_LOG
from spark_analytics.judgement.log_files import DEAD_LINK, Problem

NAMES = ("events-0000000000000001.jsonl", "pruned.jsonl", "tail-0000000000000007.jsonl", ".aside-1.jsonl")
OTHERS = ("truth.json", ".open-0000000000000042", "event.json", "notes.txt")


def directory(path: Path) -> Path:
    path.mkdir()
    for name in (*NAMES, *OTHERS):
        (path / name).touch()
    return path


def test_log_files_anywhere_below(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    log = directory(tmp_path / "deep" / "log")
    assert list_logs([tmp_path]).paths == sorted(str(log / name) for name in NAMES)


def test_a_file_with_nearly_the_name_of_a_log_file_is_told_of(tmp_path: Path) -> None:
    renamed = directory(tmp_path / "log") / "events-0000000000000001.jsonl.bak"
    renamed.touch()
    found = list_logs([tmp_path])
    assert str(renamed) not in found.paths
    assert [str(one) for one in found.problems] == [f"{renamed}: is not read: its name is not that of a log file"]


def test_a_file_that_is_named_is_read_whatever_its_name(tmp_path: Path) -> None:
    log = directory(tmp_path / "log")
    assert list_logs([log / "notes.txt"]).paths == [str(log / "notes.txt")]


def test_each_file_once(tmp_path: Path) -> None:
    log = directory(tmp_path / "log")
    (tmp_path / "link").symlink_to(log)
    assert len(list_logs([log, tmp_path / "link", log / NAMES[0]]).paths) == len(NAMES)


def test_logs_behind_a_link_to_a_directory_are_listed_once(tmp_path: Path) -> None:
    """A link that leads back is not followed for ever."""
    log = directory(tmp_path / "log")
    (log / "back").symlink_to(log)
    (tmp_path / "fleet").mkdir()
    (tmp_path / "fleet" / "one").symlink_to(log)
    (tmp_path / "fleet" / "two").symlink_to(tmp_path / "fleet" / "one")
    found = list_logs([tmp_path / "fleet"])
    assert found.paths == sorted(str(tmp_path / "fleet" / "one" / name) for name in NAMES) and found.problems == []


def test_links_that_are_not_followed_are_told_of(tmp_path: Path) -> None:
    (tmp_path / "fleet").mkdir()
    log = directory(tmp_path / "fleet" / "log")
    (tmp_path / "fleet" / "above").symlink_to(tmp_path)
    (tmp_path / "fleet" / "gone").symlink_to(tmp_path / "nowhere")
    found = list_logs([tmp_path / "fleet"])
    assert found.paths == sorted(str(log / name) for name in NAMES)
    assert {(Path(one.path).name, one.text) for one in found.problems} == {("above", LOOP), ("gone", DEAD_LINK)}


def test_a_directory_without_logs_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    found = list_logs([directory(tmp_path / "log"), tmp_path / "empty"])
    assert [(one.path, one.text) for one in found.problems] == [(str(tmp_path / "empty"), NO_LOG)]


def test_nothing_to_read_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(NothingToRead, match=r"no event log here.*name the log directory"):
        list_logs([tmp_path])


def test_a_directory_with_the_name_of_a_log_file_is_told_of(tmp_path: Path) -> None:
    log = directory(tmp_path / "log")
    (log / "events-0000000000000009.jsonl").mkdir()
    found = list_logs([log])
    assert len(found.paths) == len(NAMES)
    [problem] = found.problems
    assert problem.path.endswith("9.jsonl") and "is a directory" in problem.text


def test_paths_that_nobody_knows_are_told_by_their_names() -> None:
    listing = Listing(names={"/tmp/x/tail-1.jsonl": "HOME"})
    problem = Problem("/tmp/x/tail-1.jsonl", 3, "unlike /tmp/x/tail-1.jsonl")
    assert listing.told((problem, ("/tmp/x/tail-1.jsonl", 7, None))) == (
        Problem("HOME", 3, "unlike HOME"), ("HOME", 7, None),
    )  # fmt: skip
