"""Footers sealed by keys that have followed the router's first one: written by the router, judged by the audit."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from router.core.log.events import RouterChange, encode_events
from router.core.log.line import Line, decode_line, encode_line
from router.core.log.segment import fold, is_authentic, sign
from router.core.wire.crypto import SigningKey, verify
from router.core.wire.succession import KeySuccession, make_succession
from router.disk.limits import LogLimits
from router.disk.log.eventlog import ForeignLog, Segments
from router.disk.log.sealer import Sealer
from spark_analytics.judgement import ed25519
from spark_analytics.judgement.footer import Footer, read_footer
from spark_analytics.judgement.line_grammar import is_line

KEYS = [SigningKey(bytes((n,)) * 32) for n in range(1, 6)]
THIEF = SigningKey(b"t" * 32)
CHAIN = [make_succession(old, new, 1_800_000_000, 1_802_592_000) for old, new in pairwise(KEYS)]


def footer(first_seq: int = 1) -> Line:
    return Line(
        1, "seal", n=9, router=KEYS[0].public.hex(), first_seq=first_seq, last_seq=first_seq + 8, segments=1, lines=9,
        counts={"link_up": 9}, min_t=5, max_t=6, sha256="ab" * 32, predecessor="cd" * 32 if first_seq > 1 else None,
    )  # fmt: skip


def read(line: Line) -> Footer:
    data = encode_line(line)
    assert is_line(data)
    return read_footer(json.loads(data))


@pytest.mark.parametrize("followed", range(5))
def test_a_footer_is_authentic_by_the_newest_key_for_both(followed: int) -> None:
    sealed = sign(footer(), KEYS[followed], CHAIN[:followed])
    assert is_authentic(sealed) and is_authentic(decode_line(encode_line(sealed)))
    judged = read(sealed)
    assert judged.is_authentic(verify) and judged.is_authentic(ed25519.verify) and judged.router == KEYS[0].public.hex()
    assert judged.followers == tuple(one.public.hex() for one in KEYS[1 : followed + 1])


def test_no_other_key_seals_for_the_first_one() -> None:
    full = CHAIN[0]
    one_signature = KeySuccession(
        full.old, THIEF.public, full.from_s, full.until_s, full.old_signature, full.old_signature
    )
    for key, chain in (
        (THIEF, []),
        (THIEF, CHAIN[:1]),
        (KEYS[0], CHAIN[:1]),
        (KEYS[1], CHAIN[:2]),
        (KEYS[2], CHAIN[1:2]),
        (THIEF, [one_signature]),
        (KEYS[2], [CHAIN[1], CHAIN[0]]),
        (KEYS[0], [CHAIN[0], make_succession(KEYS[1], KEYS[0], 1_800_000_000, 1_800_000_009)]),
    ):
        sealed = sign(footer(), key, chain)
        assert not is_authentic(sealed), chain
        assert not read(sealed).is_authentic(verify), chain


@pytest.mark.parametrize("said", ["00", "zz" * 211, "0" * 422, "ab" * 211 * 65, 7])
def test_other_successions_make_no_footer(said: object) -> None:
    row = json.loads(encode_line(sign(footer(), KEYS[0]))) | {"successions": said}
    try:
        assert not read_footer(row).is_authentic(verify)
    except ValueError:
        pass
    if isinstance(said, str):
        assert not is_authentic(replace(sign(footer(), KEYS[0]), successions=said))


def test_one_log_goes_on_by_another_key_in_one_chain(tmp_path: Path) -> None:
    def seal(key: SigningKey, chain: list[KeySuccession], seq: int) -> Segments:
        segments = Segments(tmp_path, key, LogLimits(), chain)
        sealer = Sealer(segments)
        sealer.add(encode_events([RouterChange(5, 6, "start", ())], seq, b"b" * 16), 0.0)
        assert sealer.seal() == seq
        return segments

    seal(KEYS[0], [], 1)
    seal(KEYS[1], CHAIN[:1], 2)
    last = seal(KEYS[2], CHAIN[:2], 3)
    found = [one.footer for one in last.kept()]
    assert [one.router for one in found] == [KEYS[0].public.hex()] * 3
    assert [one.predecessor for one in found[1:]] == [one.sha256 for one in found[:-1]]
    [folded] = fold(found, KEYS[2], CHAIN[:2])
    assert is_authentic(folded) and read(folded).is_authentic(verify) and folded.segments == 3
    with pytest.raises(ForeignLog):
        Segments(tmp_path, KEYS[2], LogLimits())
