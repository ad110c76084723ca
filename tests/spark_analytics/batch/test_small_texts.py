"""Texts that Python writes: they lie where Spark would have written them."""

from __future__ import annotations

from pathlib import Path

from spark_analytics.batch.small_texts import read_texts, write_text
from spark_analytics.batch.writer import Writer


def test_texts_are_read_of_all_places_that_are_there(tmp_path: Path) -> None:
    assert read_texts(f"{tmp_path}/none/note-*") == []
    for name, text in (("note-a", "1"), ("note-b", "2"), ("note-b", "three"), ("other", "4")):
        write_text(f"file:{tmp_path}/{name}", text)
    (tmp_path / "note-c").mkdir()
    assert read_texts(f"{tmp_path}/note-*") == ["1", "three"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["note-a", "note-b", "note-c", "other"]
    assert sorted(path.suffix for path in (tmp_path / "note-b").iterdir()) == ["", ".txt"]


def test_half_a_pair_of_surrogates_is_written_as_by_spark(tmp_path: Path) -> None:
    write_text(f"{tmp_path}/odd", "\ud800")
    assert read_texts(f"{tmp_path}/odd") == ["?"]


def test_a_writer_that_is_told_so_needs_no_spark_for_a_text_on_this_machine(tmp_path: Path) -> None:
    Writer(str(tmp_path), is_by_python=True).text(None, "summary.json", "{}")  # type: ignore[arg-type]
    assert read_texts(f"{tmp_path}/summary.json") == ["{}"]
