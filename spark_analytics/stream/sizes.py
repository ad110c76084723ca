"""How a batch is planned, by how much it reads."""

from __future__ import annotations

from spark_analytics.batch.audit import partitions_for
from spark_analytics.batch.session import FEW_BYTES

ROW_BYTES = 256
"""Approximate bytes of memory for a row of the state."""
PARTITIONS_FEW = 8
"""With at most this many partitions, planning each step again takes longer than a worse plan."""
INTERPRETED_BYTES = 16 << 20
"""Batches of fewer bytes are made by plans that are interpreted: to compile these takes a quarter of a small batch."""
MESSAGES_FEW = 50_000
"""After fewer messages the sums of earlier batches are few, and are read by plans that are interpreted too."""

MESSAGES_AT_HAND = 500_000
"""With fewer messages in all, what logs tell of each other is looked for by plans that are interpreted: where a log
lies, these read all lines."""


def has_few_lines(size: int, before: int) -> bool:
    """Whether a batch of files with `size` bytes has few rows; `before`: how many the batch before laid out."""
    return size + ROW_BYTES * before < INTERPRETED_BYTES


def has_few_sums(messages: int) -> bool:
    """Whether the sums of all batches are few rows, after so many messages."""
    return messages < MESSAGES_FEW


def is_told_by_few(messages: int) -> bool:
    """Whether few lines may be read to tell what logs say of each other, after so many messages."""
    return messages < MESSAGES_AT_HAND


def partitions_of(size: int) -> int:
    """Return into how many partitions each step of a batch with `size` bytes divides its rows: one if they are few,
    because a further task costs more CPU than it shares."""
    return 1 if size < FEW_BYTES else partitions_for(size)
