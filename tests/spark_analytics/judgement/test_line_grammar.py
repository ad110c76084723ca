"""The grammar of lines accepts the router's lines and refuses near misses, and all its users judge alike."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.lines import lines, samples
from samples.segments import WHOLE

from router.audit.spelling import Care, Spelling
from router.core.log.line import encode_line
from spark_analytics.batch import bronze
from spark_analytics.judgement.line_grammar import LINE_BYTES_MAX, NUMBER_MAX, SHORT_MAX, TIME_MAX, is_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOOD = encode_line(lines()[3])
ACCEPTED = encode_line(lines()[0])
STATE = encode_line(lines()[8])


def is_odd(data: bytes, care: Care) -> bool:
    spelling = Spelling(care)
    spelling.take(memoryview(data + b"\n"))
    return spelling.is_odd


def test_what_a_router_writes_is_a_line() -> None:
    for line in [*map(encode_line, lines()), *WHOLE.splitlines()]:
        assert is_line(line), line


@pytest.mark.parametrize(
    ("line", "old", "new"),
    [
        (GOOD, b'"link":2', b'"link":"2"'),
        (GOOD, b'"link":2', b'"link":2.0'),
        (GOOD, b'"link":2', b'"link":2e0'),
        (GOOD, b'"link":2', b'"link":02'),
        (GOOD, b'"link":2', b'"link":true'),
        (GOOD, b'"link":2', b'"link":null'),
        (GOOD, b'"link":2', b'"link": 2'),
        (GOOD, b'"link":2', b'"link":2,"link":2'),
        (GOOD, b'"link":2,', b""),
        (GOOD, b'"link":2', b'"link":%d' % (NUMBER_MAX + 1)),
        (GOOD, b'"link":2', b'"link":-2'),
        (GOOD, b'"count":2', b'"count":%d' % (SHORT_MAX + 1)),
        (GOOD, b"[[1,1]", b"[[1,%d]" % (SHORT_MAX + 1)),
        (GOOD, b"[[1,1]", b"[[1]"),
        (GOOD, b'"t":1', b'"t":9'),
        (GOOD, b'"t":', b'"seq":'),
        (GOOD, b'"', b"'"),
        (GOOD, b'"delivered"', b'"accepted"'),
        (GOOD, b'"delivered"', b'"\\u0064elivered"'),
        (GOOD, b'{"v":1,"event":"delivered"', b'{"event":"delivered","v":1'),
        (GOOD, b'"duration_ns":0}', b'"duration_ns":0,"mood":{"a":1}}'),
        (GOOD, b'"duration_ns":0}', b'"duration_ns":0,"mood":1.5}'),
        (GOOD, b'"duration_ns":0}', b'"duration_ns":0,"seq":7}'),
        (GOOD, b'"duration_ns":0}', b'"duration_ns":0,"mood":1,"mood":1}'),
        (STATE, b'"rtt_ns":5', b'"peer":5'),
        (STATE, b'"rtt_ns":5', b'"rtt_ns":-0'),
        (STATE, b'"rtt_ns":5', b'"rtt_ns":"\\ud800"'),
        (STATE, b'"rtt_ns":5', b'"rtt_ns":"\xff"'),
        (STATE, b'"rtt_ns":5', b'"rtt_ns":"\xef\xbf\xbd"'),
    ],
)  # fmt: skip
def test_what_is_nearly_a_line_is_none(line: bytes, old: bytes, new: bytes) -> None:
    assert is_line(line) and old in line
    changed = line.replace(old, new)
    assert not is_line(changed)
    assert is_odd(changed, Care.EXACT)


def test_keys_are_hex_digits_in_small_letters() -> None:
    key = json.loads(GOOD)["recipient"].encode()
    assert not is_line(GOOD.replace(key, key.upper())) and not is_line(GOOD.replace(key, key[1:]))
    assert is_odd(GOOD.replace(key, key.upper()), Care.EXACT)


@pytest.mark.parametrize(
    "more", [b'"mood":1', b'"mood":"\xc3\xa9"', b'"mood":[1,-2],"why":null', b'"mood":["a","b"]', b'"mood":true']
)
def test_a_newer_router_may_write_more_at_the_end(more: bytes) -> None:
    for line in lines():
        assert is_line(encode_line(line)[:-1] + b"," + more + b"}")


def test_a_line_has_a_monotonic_time_and_lacks_its_wall_time_only_where_that_is_0() -> None:
    assert is_line(re.sub(rb'"t":\d+,', b"", GOOD))
    bare = re.sub(rb'"mono":\d+,', b"", GOOD)
    assert bare != GOOD and not is_line(bare) and is_odd(bare, Care.EXACT)


def test_times_reach_to_2096() -> None:
    start = GOOD.index(b'"t":') + 4
    stop = GOOD.index(b",", start)
    for value, is_one in ((TIME_MAX, True), (TIME_MAX + 1, False)):
        assert is_line(GOOD[:start] + b"%d" % value + GOOD[stop:]) is is_one


def test_a_line_is_no_longer_than_so() -> None:
    text = STATE.replace(b'"rtt_ns":5', b'"rtt_ns":"%s"' % (b"x" * (LINE_BYTES_MAX - len(STATE))))
    long = text.replace(b'"x', b'"' + b"x" * (LINE_BYTES_MAX - len(text)))
    assert len(long) == LINE_BYTES_MAX and is_line(long.replace(b"xx", b"x", 1)) and not is_line(long)


def test_of_an_endless_line_no_more_is_kept_than_a_line_may_have() -> None:
    spelling = Spelling(Care.QUICK)
    for _ in range(40):
        spelling.take(memoryview(b"x" * (1 << 20)))
    assert spelling.is_odd and str(LINE_BYTES_MAX) in repr(spelling)


@given(st.integers(0, 10**6))
def test_whoever_reads_bytes_judges_alike(seed: int) -> None:
    for _, data in samples(seed, 20):
        is_one = is_line(data)
        assert is_odd(data, Care.EXACT) is not is_one
        assert not (is_one and is_odd(data, Care.QUICK))


@pytest.mark.xdist_group("spark")
def test_spark_judges_alike(spark: SparkSession, tmp_path: Path) -> None:
    """Test 5,000 lines and near misses; Spark can also read every valid line."""
    found = [data for _, data in samples(3, 5_000)]
    path = tmp_path / "tail-1.jsonl"
    path.write_bytes(b"".join(data + b"\n" for data in found))
    text = bronze.text_lines(spark, [path.as_uri()])
    judged = text.select("value", bronze.is_line("value").alias("is_line")).collect()
    assert len(judged) == len(found)
    said = {
        bytes(data): is_one
        for data, is_one in text.select(text.value.cast("binary"), bronze.is_line("value")).collect()
    }
    unlike = [data for data in found if said[data] is not is_line(data)]
    assert not unlike
    path.write_bytes(b"".join(data + b"\n" for data in found if is_line(data)))
    corrupt = [row[bronze.CORRUPT] for row in bronze.lines(spark, [path.as_uri()]).collect()]
    assert corrupt == [None] * sum(map(is_line, found))
