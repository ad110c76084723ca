"""Segments: header, footer, the signed bytes, and the folding of footers."""

import json
from hashlib import sha256
from pathlib import Path

import cbor2
import pytest
from cddl_verifier import Validator  # type: ignore[import-untyped]
from msgspec.structs import replace
from samples.logs import BOOT, KEY, OTHER
from samples.segments import ROUTER, WHOLE, events_of, footer, outward

from router.core.log.line import Line, decode_line, encode_line, gaps
from router.core.log.segment import SEAL_LABEL, file_name, fold, header, is_authentic, sign, signed_bytes
from router.core.wire.crypto import verify

CDDL = Validator(Path(__file__).parents[4] / "cddl" / "segment.cddl")
FOOTER = decode_line(WHOLE.splitlines()[-1])


# -- header and footer ------------------------------------------------------------------------------------


def test_a_segment_is_named_by_its_first_sequence_number() -> None:
    assert file_name(10) == "events-0000000000000010.jsonl"


def test_header_and_footer() -> None:
    first, *_, last = WHOLE.splitlines(keepends=True)
    assert json.loads(first) == {
        "v": 1, "event": "segment", "router": ROUTER, "boot": BOOT.hex(), "schema": "upsycle event log 1",
        "first_seq": 10, "predecessor": "ab" * 32,
    }  # fmt: skip
    said = json.loads(last)
    signature = bytes.fromhex(said.pop("signature"))
    assert said == {
        "v": 1, "event": "seal", "n": 6, "router": ROUTER, "first_seq": 10, "last_seq": 15, "segments": 1,
        "lines": 4, "counts": {"start": 1, "accepted": 3, "delivered": 6}, "min_t": 2, "max_t": 9,
        "predecessor": "ab" * 32, "sha256": sha256(WHOLE.removesuffix(last)).hexdigest(),
    }  # fmt: skip
    sealed = [1, ROUTER, 10, 15, 6, 1, 4, said["counts"], 2, 9, "ab" * 32, said["sha256"]]
    signed = b"upsycle event log seal 1" + cbor2.dumps(sealed, canonical=True)
    assert verify(KEY.public, signed, signature)


def test_header_and_footer_are_what_the_cddl_says() -> None:
    first, *_, last = WHOLE.splitlines()
    assert CDDL.validate(json.loads(first), "header")
    naming = encode_line(header(decode_line(WHOLE.splitlines()[1]), None, ("dmq:expired",)))
    assert naming.endswith(b',"reasons":["dmq:expired"]}') and CDDL.validate(json.loads(naming), "header")
    assert CDDL.validate(json.loads(last), "footer")
    assert CDDL.validate(signed_bytes(FOOTER).removeprefix(SEAL_LABEL), "sealed", require_deterministic=True)


def test_the_label_keeps_a_seal_from_being_anything_else() -> None:
    assert SEAL_LABEL == b"upsycle event log seal 1"


def test_what_the_router_signed_is_authentic() -> None:
    assert is_authentic(FOOTER)


def test_a_recorded_gap_is_counted_as_one_event() -> None:
    found = events_of(outward(), first_seq=10)
    counted = footer([*gaps(4, found[0]), *found])
    assert (counted.first_seq, counted.n, counted.lines, counted.counts) == (4, 7, 2, {"log_gap": 1, "delivered": 3})


@pytest.mark.parametrize(
    "change",
    [
        {"event": "seals"}, {"v": 2}, {"router": OTHER.public.hex()}, {"router": None}, {"router": "zz"},
        {"first_seq": 9}, {"last_seq": 16}, {"last_seq": 0}, {"n": 7}, {"segments": 2}, {"lines": 5},
        {"counts": {"accepted": 3}}, {"counts": None}, {"min_t": 1}, {"max_t": 10}, {"predecessor": None},
        {"predecessor": "ac" * 32}, {"sha256": "00" * 32}, {"sha256": None}, {"signature": None},
        {"signature": "00" * 64}, {"signature": "é"}, {"signature": "00"}, {"counts": {"\ud800": 1}},
    ],
    ids=str,
)  # fmt: skip
def test_a_footer_with_anything_changed_is_not_authentic(change: dict[str, object]) -> None:
    assert not is_authentic(replace(FOOTER, **change))


def test_a_signature_has_one_spelling() -> None:
    assert not is_authentic(replace(FOOTER, signature=(FOOTER.signature or "").upper()))


def test_another_router_may_not_sign_for_this_one() -> None:
    assert not is_authentic(sign(FOOTER, OTHER))


# -- folding ----------------------------------------------------------------------------------------------


def chain(*sizes: int) -> list[Line]:
    """Return footers of consecutive segments, with that many events each."""
    footers: list[Line] = []
    seq, predecessor = 1, None
    for size in sizes:
        found = events_of(*(outward(seq + number) for number in range(size)), first_seq=seq)
        footers.append(footer(found, predecessor))
        seq, predecessor = seq + size, footers[-1].sha256
    return footers


def test_neighbours_in_the_chain_fold_into_one_footer() -> None:
    one, two, three = chain(2, 1, 3)
    [folded] = fold([one, two, three], KEY)
    assert is_authentic(folded)
    assert replace(folded, signature=None) == Line(
        1, "seal", router=ROUTER, n=6, first_seq=1, last_seq=6, segments=3, lines=6, counts={"delivered": 18},
        min_t=1, max_t=6, predecessor=None, sha256=three.sha256,
    )  # fmt: skip


def test_folding_can_go_on() -> None:
    footers = chain(2, 1, 3, 1)
    once = fold(footers[:2], KEY) + footers[2:]
    assert fold(once, KEY) == fold(footers, KEY)


def test_a_gap_is_not_folded_away() -> None:
    one, _, three, four = chain(2, 1, 3, 1)
    assert [(each.first_seq, each.last_seq) for each in fold([one, three, four], KEY)] == [(1, 2), (4, 7)]
    other = replace(three, first_seq=3, predecessor="00" * 32)
    assert fold([one, other], KEY) == [one, other]
    assert fold([], KEY) == []
