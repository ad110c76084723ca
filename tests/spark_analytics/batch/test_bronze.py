"""Files as Spark reads them: the list of files, the kind of each, and their lines."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from samples.audit_logs import APP, Log
from samples.packed_logs import pack_all, packed, unpacked

from router.audit.file_facts import read_facts
from router.audit.spelling import Care
from router.core.log.line import encode_line
from spark_analytics.batch import bronze
from spark_analytics.batch.packed import BLOCK_BYTES, BLOCKS_MAX, text_at_most, too_large
from spark_analytics.judgement.evidence import NO_LOG
from spark_analytics.judgement.log_files import Problem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

ODD = {
    "events-0000000000000001.jsonl": b"",
    "tail-5.jsonl": b"one\n",
    "pruned.jsonl": b"one\ntwo\nthree",
    "a[1]{x}*?.jsonl": b"\r\n\xff\xfe\n\x00z\n",
    "per%20cent and é.jsonl": b"\n\n",
    "long.jsonl": b"y" * 70_000 + b"\n" + b"z" * 80_000 + b"\n",
}


def test_facts_are_what_a_plain_reader_finds(spark: SparkSession, tmp_path: Path) -> None:
    for name, data in ODD.items():
        (tmp_path / name).write_bytes(data)
    paths = sorted(str(tmp_path / name) for name in ODD)
    uris = bronze.uris_of(spark, paths)
    assert sorted(uris) == paths
    found = bronze.facts_of(spark, uris)
    assert [fact._replace(is_odd=False) for fact in found] == read_facts(paths)
    assert bronze.content_of(spark, uris[str(tmp_path / "long.jsonl")]) == ODD["long.jsonl"]


def test_compressed_files_are_read_as_their_text(spark: SparkSession, tmp_path: Path) -> None:
    log = Log()
    log.accepted(1, range(2))
    log.outward("delivered", [(1, 2)])
    log.write(tmp_path)
    (tmp_path / "events-0000000000000050.jsonl").write_bytes(ODD["long.jsonl"])
    paths = [str(path) for path in pack_all(tmp_path)]
    torn = tmp_path / "events-0000000000000060.jsonl.zst"
    torn.write_bytes(packed(b"one\n" * 9000)[:-3])
    (tmp_path / "events-0000000000000070.jsonl.zst").write_bytes(b"")
    there = sorted([*paths, str(torn), str(tmp_path / "events-0000000000000070.jsonl.zst")])
    uris = bronze.uris_of(spark, there)
    found = {fact.path: fact for fact in bronze.facts_of(spark, uris)}
    for fact in read_facts(there, care=Care.EXACT):
        if fact.path != str(torn):
            assert found[fact.path] == fact
    assert found[str(torn)].error == f"Spark {spark.version} cannot unpack it: it is damaged or cut off"
    assert bronze.content_of(spark, uris[paths[1]]) == ODD["long.jsonl"]
    rows = bronze.lines(spark, [uris[paths[0]]]).where("event IN ('accepted', 'delivered')").orderBy("seq").collect()
    assert [row.event for row in rows] == ["accepted", "delivered"]
    assert {bronze.name_of(row.file) for row in rows} == {paths[0]}


NOISE = random.Random(1).randbytes(300_000)


@pytest.mark.parametrize(
    "texts",
    [(b"x", NOISE), pytest.param((b"", b"x", NOISE, bytes(5 << 20), NOISE * 3, b"a" * 700), marks=pytest.mark.long)],
    ids=("few", "many"),
)
def test_text_of_compressed_files_is_bounded_from_their_blocks(
    spark: SparkSession, tmp_path: Path, texts: tuple[bytes, ...]
) -> None:
    files = [packed(text, level) for text in texts for level in (1, 15)]
    files += [one + two for one, two in pairwise(files)]
    for number, one in enumerate(files):
        (tmp_path / f"{number}.zst").write_bytes(one)
    table = spark.read.format("binaryFile").load(str(tmp_path))
    most = {Path(row.path).stem: row.most for row in table.select("path", text_at_most().alias("most")).collect()}
    for number, one in enumerate(files):
        size = len(unpacked(one))
        assert size <= most[str(number)] <= size + 9 * BLOCK_BYTES, number


@pytest.mark.long
def test_compressed_files_that_may_hold_too_much_text_are_found(spark: SparkSession) -> None:
    bomb, many = bytearray(packed(bytes(64 << 20)) * 17), bytearray(packed(b"") * BLOCKS_MAX)
    rows = [("bomb", bomb), ("many", many), ("fine", bytearray(packed(b"x", 15))), ("none", None)]
    assert too_large(spark.createDataFrame(rows, "uri string, content binary")) == ["bomb", "many", "none"]


def test_directories_are_searched_and_named_files_taken(spark: SparkSession, tmp_path: Path) -> None:
    there = [
        tmp_path / "a" / "log" / "events-0000000000000001.jsonl",
        tmp_path / "a" / "notes.txt",
        tmp_path / "b" / "x",
        tmp_path / "a" / "store" / "data.mdb",
    ]
    for path in there:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x\n")
    found, problems = bronze.list_logs(spark, [str(tmp_path / "a"), str(tmp_path / "b"), str(there[1])])
    assert list(found) == [str(there[0]), str(there[1])]
    assert problems == [Problem(str(there[3]), 0, bronze.STORE), Problem(str(tmp_path / "b"), 0, NO_LOG)]
    with pytest.raises(bronze.NothingToRead, match="nothing at"):
        bronze.list_logs(spark, [str(tmp_path / "none")])


def test_raw_lines_keep_what_the_schema_lacks(spark: SparkSession, tmp_path: Path) -> None:
    log = Log()
    log.seq = 3
    texts = [encode_line(log.state("join")).decode() for _ in range(2)]
    lines = [texts[0][:-1] + ',"later":[1,2]}', texts[1], '{"event":"jo']
    path = tmp_path / "tail-3.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    text = bronze.text_lines(spark, list(bronze.uris_of(spark, [str(path)]).values()))
    rows = bronze.events_raw(text).select("seq", "_rescued", "_corrupt").orderBy("seq").collect()
    assert [tuple(row) for row in rows] == [
        (None, None, lines[2].encode()),
        (3, {"later": "[1,2]"}, None),
        (4, None, None),
    ]


def test_lines_have_all_columns_and_their_file(spark: SparkSession, tmp_path: Path) -> None:
    log = Log()
    log.accepted(1, range(2))
    log.outward("delivered", [(1, 2)])
    directory = log.write(tmp_path / "with space")
    found, _ = bronze.list_logs(spark, [str(directory)])
    rows = bronze.lines(spark, list(found.values())).orderBy("seq").collect()
    assert [row.event for row in rows if row.seq] == ["accepted", "delivered"]
    delivered = next(row for row in rows if row.event == "delivered")
    assert (delivered.recipient, delivered.ranges, delivered.parcel, delivered._corrupt) == (APP, [[1, 2]], 1, None)
    [(name, uri)] = found.items()
    assert delivered.file in bronze.spellings(uri) and bronze.name_of(delivered.file) == name


def test_path_that_looks_like_a_pattern_or_a_scheme_is_read_once(spark: SparkSession, tmp_path: Path) -> None:
    directory = tmp_path / "a:b[c]" / "date=1 {x}*"
    for name, event in (("events-0000000000000001.jsonl", "join"), ("events-0000000000000002.jsonl", "leave")):
        directory.mkdir(parents=True, exist_ok=True)
        log = Log()
        (directory / name).write_bytes(encode_line(log.state(event)) + b"\n")
    found, problems = bronze.list_logs(spark, [str(tmp_path / "a:b[c]")])
    assert sorted(found) == sorted(map(str, directory.iterdir())) and problems == []
    assert bronze.uris_of(spark, sorted(found)) == found
    assert sorted(row.event for row in bronze.lines(spark, list(found.values())).collect()) == ["join", "leave"]
    assert bronze.text_lines(spark, list(found.values())).count() == 2
    assert [fact.path for fact in bronze.facts_of(spark, found)] == sorted(found)


def test_path_that_does_not_exist_is_a_pattern(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("one", "two", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "events-0000000000000001.jsonl").write_text("x\n")
    found, _ = bronze.list_logs(spark, [str(tmp_path / "{one,two}")])
    assert [Path(path).parent.name for path in found] == ["one", "two"]
