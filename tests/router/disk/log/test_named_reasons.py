"""The header of a segment names each word of a reason that stands in it, but for those that all versions have."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from samples.logs import Store, file_lines, open_log, outward, problems

from router.core.log.events import Outward
from router.core.log.line import encode_line
from router.core.wire import reasons
from router.core.wire.reasons import DIAL_BUDGET, LISTED_MIN, Reason, listed
from spark_analytics.judgement.line_grammar import is_line

HEADER_BYTES_MAX = 64 * 1024


def refused(reason: int) -> Outward:
    return replace(outward(1), event="refused", reason=reason)


def test_a_header_names_the_reasons_of_services_and_the_lines_their_words(tmp_path: Path) -> None:
    _, sealer = open_log(tmp_path)
    sealer.add(Store().commit(refused(DIAL_BUDGET), refused(Reason.LEFT), refused(1000)), 0)
    sealer.seal()
    header, *lines, _ = file_lines(tmp_path / "events-0000000000000001.jsonl")
    assert [line.reason for line in lines] == ["dial:budget", "left", "reason-1000"]
    named = header.reasons or ()
    assert "dial:budget" in named and not {one.word for one in Reason} & {*named}
    assert tuple(named) == listed() and is_line(encode_line(header)) and problems(tmp_path) == []
    assert max(Reason) < LISTED_MIN, "readers know these by heart"


def test_a_reason_that_is_declared_later_stands_by_its_number_until_a_header_names_it(tmp_path: Path) -> None:
    _, sealer = open_log(tmp_path)
    store = Store()
    sealer.add(store.commit(refused(DIAL_BUDGET)), 0)
    assert not sealer.due(0)
    late = Reason.declare(792, "late:told", "It was told late.")
    sealer.add(store.commit(refused(late), refused(Reason.LEFT), refused(DIAL_BUDGET), outward(1)), 0)
    assert sealer.due(0)
    sealer.seal()
    sealer.add(store.commit(refused(late)), 0)
    assert not sealer.due(0)
    sealer.seal()
    one, two = (file_lines(path) for path in sorted(tmp_path.glob("events-*")))
    assert [line.reason for line in one[1:-1]] == ["dial:budget", "reason-792", "left", "dial:budget", None]
    assert "late:told" not in (one[0].reasons or ()) and "late:told" in (two[0].reasons or ())
    assert two[1].reason == "late:told" and problems(tmp_path) == []


def test_a_header_names_none_where_they_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    most = sum(len(word) + 3 for word in listed() or ())
    monkeypatch.setattr(reasons, "LISTED_BYTES_MAX", most)
    assert listed()
    monkeypatch.setattr(reasons, "LISTED_BYTES_MAX", most - 1)
    assert listed() is None
    _, sealer = open_log(tmp_path)
    sealer.add(Store().commit(refused(DIAL_BUDGET)), 0)
    sealer.seal()
    [header, line, _] = file_lines(tmp_path / "events-0000000000000001.jsonl")
    assert header.reasons is None and line.reason == "dial:budget"


def test_a_header_with_the_most_reasons_is_one_that_readers_keep_whole() -> None:
    assert reasons.LISTED_BYTES_MAX < HEADER_BYTES_MAX - 1024


def test_how_many_services_there_are_does_not_change_where_segments_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lines_of_full(directory: Path) -> int:
        _, sealer = open_log(directory, segment_bytes=2000)
        store = Store()
        while not sealer.due(0):
            sealer.add(store.commit(outward(1)), 0)
        return sealer.seal()

    many = lines_of_full(tmp_path / "many")
    monkeypatch.setattr(reasons, "LISTED_BYTES_MAX", 0)
    assert lines_of_full(tmp_path / "none") == many > 3
