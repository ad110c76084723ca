"""Files of a DMQ node that people edit, saved with a byte order mark as editors on Windows do."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable
from pathlib import Path

import pytest

from services.dmq.command_options import messages_of
from services.dmq.core.node_config import read_node_config
from services.dmq.core.stake.chain_time import read_genesis
from services.dmq.core.stake.distribution import read_stake

GENESIS = (
    b'{"networkMagic": 2, "slotsPerKESPeriod": 129600, "epochLength": 86400, "maxKESEvolutions": 62,'
    b' "systemStart": "2022-10-25T00:00:00Z", "slotLength": 1}'
)
STAKE = b'{"pools": {"%s": {"stakeSet": 5}}}' % (b"00" * 28)
CONFIG = b'{"NetworkMagic": 2147483650}'


@pytest.mark.parametrize(
    ("read", "data"),
    [
        (read_genesis, GENESIS),
        (lambda data: read_stake(data, 0.0), STAKE),
        (lambda data: read_node_config(data, {}), CONFIG),
    ],
    ids=["genesis", "stake", "configuration"],
)
def test_a_byte_order_mark_is_no_part_of_the_file(read: Callable[[bytes], object], data: bytes) -> None:
    assert read(BOM_UTF8 + data) == read(data)


def test_messages_in_hex_may_stand_in_a_file_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "messages"
    file.write_bytes(BOM_UTF8 + b"8100\r\n8101\r\n")
    assert [one.wire for one in messages_of([str(file)])] == [b"\x81\x00", b"\x81\x01"]
