"""Signed messages made before the clock starts, because publishers sign in advance, as the report says."""

from __future__ import annotations

import os
import time
from pathlib import Path

from msgspec import Struct

from router.core.wire.codec import frame
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import read_header, seal_multicast

LIFE_S = 3 * 3600
NUMBER_BYTES = 8


class Traffic(Struct, frozen=True):
    """`count` messages in one file of frames of equal size: of one group, or of several in turn (`further_seeds`), with
    a parcel for each message.

    The body of message i begins with i in 8 bytes, `number_at` bytes after the message's own first byte.
    """

    path: Path
    group_seed: bytes
    count: int
    frame_bytes: int
    number_at: int
    further_seeds: tuple[bytes, ...] = ()


def make(path: Path, count: int, body_bytes: int, groups: int = 1) -> Traffic:
    """Sign `count` messages with bodies of `body_bytes` random bytes and write their frames to `path`."""
    keys = [SigningKey(os.urandom(32)) for _ in range(groups)]
    expiry = expiry_min(time.time() + LIFE_S)
    filler = os.urandom(body_bytes - NUMBER_BYTES)
    frame_bytes = 0
    with path.open("wb") as file:
        for number in range(count):
            group, body = keys[number % groups], number.to_bytes(NUMBER_BYTES, "big") + filler
            wire = seal_multicast(group, body, ttl_s=LIFE_S, expiry_min=expiry)
            one = frame(wire)
            frame_bytes = len(one)
            file.write(one)
    header = read_header(wire, 0, len(wire))
    number_at = header.end - 66 - body_bytes
    seeds = [key.seed for key in keys]
    return Traffic(path, seeds[0], count, frame_bytes, number_at, tuple(seeds[1:]))
