"""Compressed files of logs (`.zst`) in Spark: those that would unpack to too much are left out before any is unpacked.

Spark unpacks a file as its name says, from version 4.1 on, and holds the text of one whole. How much text there can be
is added up from the headers of zstd's blocks (RFC 8878, 3.1.1), natively: no Python runs on executors.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame, DataFrameReader
from pyspark.sql import functions as F

from spark_analytics.judgement.schema import PACKED, UNPACKED_BYTES_MAX

BLOCK_BYTES = 1 << 17
"""Most bytes of text in a block, as which each compressed one counts."""
BLOCKS_AT_ONCE = 1 << 8
BLOCKS_MAX = BLOCKS_AT_ONCE**2
"""Most blocks and frames that are counted; a file with more is left out."""
TOO_LARGE = (
    f"it may unpack to more than {UNPACKED_BYTES_MAX:,} bytes, the most that is read of a compressed file (each block"
    f" counts as {BLOCK_BYTES:,}, and of more than {BLOCKS_MAX:,} none is counted)"
)
NO_LINE = "\0"
"""A character that no line of a log can hold."""
SINCE = (4, 1)
"""The first version of Spark that unpacks zstd without Hadoop's native library."""

_STATE = (
    "named_struct('at', cast({at} as bigint), 'text', cast({text} as bigint), 'sum', {sum}, 'is_block', {is_block})"
)
_END = "length(content) + 1L"


def is_packed(name: str) -> bool:
    return name.endswith(PACKED)


def not_unpacked(version: str) -> str:
    """Return why that version of Spark gave no text of a file."""
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    damaged = f"Spark {version} cannot unpack it: it is damaged or cut off"
    if numbers >= SINCE:
        return damaged
    return f"{damaged}, or Hadoop's native library is missing, which Spark needs before {'.'.join(map(str, SINCE))}"


def text_at_most() -> Column:
    """Return the most bytes of text that the zstd file in the column `content` can hold, as far as it is valid; null if
    it has more than `BLOCKS_MAX` blocks and frames. It stops counting beyond `UNPACKED_BYTES_MAX`.

    Spark goes through a sequence to its end, also when nothing is left to count: there are two, one within the other.
    """
    start = _STATE.format(at="1", text="0", sum="0", is_block="false")
    seen = f"hex(substring(content, cast(state.at as int), {_HEAD_BYTES}))"
    step = f"transform(array({seen}), head -> CASE WHEN state.is_block THEN {_block()} ELSE {_frame()} END)[0]"
    is_over = f"state.at >= {_END} OR state.text > {UNPACKED_BYTES_MAX}L"
    done = f"CASE WHEN state.at >= {_END} OR state.text > {UNPACKED_BYTES_MAX}L THEN state.text END"
    each = f"(state, i) -> CASE WHEN {is_over} THEN state ELSE {step} END"
    numbers = f"sequence(1, {BLOCKS_AT_ONCE})"
    some = f"(state, i) -> CASE WHEN {is_over} THEN state ELSE aggregate({numbers}, state, {each}) END"
    counted = f"aggregate({numbers}, {start}, {some}, state -> {done})"
    return F.expr(f"CASE WHEN content IS NOT NULL THEN {counted} END")


def too_large(files: DataFrame) -> list[str]:
    """Return the `uri` of each file (`uri`, `content`) that may hold too much text."""
    most = files.select("uri", text_at_most().alias("most"))
    found = most.where(f"most IS NULL OR most > {UNPACKED_BYTES_MAX}L").select("uri").collect()
    return [row.uri for row in found]


def texts(reader: DataFrameReader, paths: Iterable[str]) -> DataFrame:
    """Return the text of each of these compressed files, whole: uri, content. One that is damaged is left out, and one
    with `NO_LINE` in it, which is in no log, has several rows.

    Spark unpacks no file that it reads as a whole, only one that it reads line by line.
    """
    reader = reader.option("ignoreMissingFiles", True).option("ignoreCorruptFiles", True)
    found = reader.option("lineSep", NO_LINE).text([*paths])
    return found.select(F.col("_metadata.file_path").alias("uri"), F.col("value").cast("binary").alias("content"))


_HEAD_BYTES = 8
"""Bytes of a block's or frame's header that are looked at: magic number and descriptor, or magic number and size."""


def _byte(number: int) -> str:
    return f"substring(head, {2 * number + 1}, 2)"


def _little_endian(first: int, count: int) -> str:
    digits = ", ".join(_byte(number) for number in reversed(range(first, first + count)))
    return f"cast(conv(concat({digits}), 16, 10) as bigint)"


def _frame() -> str:
    """Return the state behind the header of a frame, or behind a skippable one; else that at the end."""
    descriptor = f"cast(conv({_byte(4)}, 16, 10) as int)"
    is_single = f"(shiftright({descriptor}, 5) & 1)"
    size = f"element_at(array({is_single}, 2, 4, 8), shiftright({descriptor}, 6) + 1)"
    dictionary = f"element_at(array(0, 1, 2, 4), ({descriptor} & 3) + 1)"
    behind = f"coalesce(state.at + 6 - {is_single} + {size} + {dictionary}, {_END})"
    has_sum = f"coalesce(shiftright({descriptor}, 2) & 1, 0)"
    frame = _STATE.format(at=behind, text="state.text", sum=has_sum, is_block="true")
    skipped = f"coalesce(state.at + 8 + {_little_endian(4, 4)}, {_END})"
    skippable = _STATE.format(at=skipped, text="state.text", sum="0", is_block="false")
    other = _STATE.format(at=_END, text="state.text", sum="0", is_block="false")
    return f"CASE WHEN head LIKE '28B52FFD%' THEN {frame} WHEN head RLIKE '^5.2A4D18' THEN {skippable} ELSE {other} END"


def _block() -> str:
    """Return the state behind a block, with its text counted."""
    header = _little_endian(0, 3)
    kind, size, is_last = f"(shiftright({header}, 1) & 3)", f"shiftright({header}, 3)", f"({header} & 1)"
    stored = f"CASE WHEN {kind} = 1 THEN 1L ELSE {size} END"
    text = f"CASE WHEN {kind} <= 1 THEN {size} ELSE {BLOCK_BYTES}L END"
    return _STATE.format(
        at=f"coalesce(state.at + 3 + {stored} + {is_last} * state.sum * 4, {_END})",
        text=f"state.text + coalesce({text}, 0L)",
        sum="state.sum",
        is_block=f"coalesce({is_last} = 0, false)",
    )
