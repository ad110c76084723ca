"""Link items: exact bytes, round trips, limits, and the bytes that a proof covers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from samples.core import ALICE, BOB, GROUP, HELLO, IDS, ITEMS, SUCCESSION, UNICASTS, value_of

from router.core.wire import link_items as link
from router.core.wire.codec import Malformed, TooLarge, encode, head
from router.core.wire.crypto import SigningKey, digest, verify
from router.core.wire.reasons import Reason
from router.core.wire.run_claim import LIFE_MAX
from router.core.wire.succession import CHAIN_MAX, formers

ID, KEY, SIG = bytes(IDS[0]), bytes(GROUP.public), bytes(64)
FIELDS = value_of(link.encode_item(HELLO))[1]
[FORMER] = formers([SUCCESSION])
CHAIN = tuple(replace(FORMER, old=SigningKey(bytes((n,)) * 32).public) for n in range(CHAIN_MAX))


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: type(item).__name__)
def test_round_trip(item: link.Item) -> None:
    assert link.decode_item(link.encode_item(item)) == item


def test_exact_bytes() -> None:
    for item, value in (
        (link.Settled(500), [4, 500]),
        (link.Refused(2, Reason.BLOCKED), [5, 2, 10]),
        (link.Refused(2, Reason.BLOCKED, "no"), [5, 2, 10, "no"]),
        (link.Ping(9), [6, 9]),
        (link.Pong(1, 2, 3), [7, 1, 2, 3]),
        (link.Pong(1, 2, 3, link.LogHead(4, ID)), [7, 1, 2, 3, [4, ID]]),
        (link.Goodbye(27), [8, 27]),
        (link.Redelivered(3), [11, 3]),
        (link.Missed(None, 1, IDS[0], IDS[1], 13), [10, None, 1, ID, bytes(IDS[1]), 13]),
        (link.Outcome(IDS[0], (link.RecipientOutcome(7, "queued"),)), [9, ID, [[7, "queued"]]]),
    ):
        assert link.encode_item(item) == encode(value)


@given(st.integers(0, (1 << 64) - 1), st.binary(max_size=3))
def test_settled_is_read_fast_and_strictly(n: int, more: bytes) -> None:
    wire = link.encode_item(link.Settled(n))
    assert wire == encode([4, n])
    assert link.decode_item(wire) == link.Settled(n)
    for wrong in (wire[:-1], wire + b"\x00" + more):
        with pytest.raises(Malformed):
            link.decode_item(wrong)


@given(st.binary(max_size=10))
def test_settled_agrees_with_the_general_reader(rest: bytes) -> None:
    wire = b"\x82\x04" + rest
    try:
        value = value_of(wire)
        n = value[1] if type(value[1]) is int and value[1] >= 0 else None
    except Malformed:
        n = None
    try:
        found = link.decode_item(wire)
    except Malformed:
        assert n is None
    else:
        assert found == link.Settled(n if n is not None else -1)


@pytest.mark.parametrize("kind", (14, 15, 16, 23, 24, 1 << 32))
def test_types_of_later_versions_are_told_apart(kind: int) -> None:
    with pytest.raises(link.UnknownItem, match=f"link item type {kind} is unknown"):
        link.decode_item(encode([kind, {}, "more"]))


@pytest.mark.parametrize(
    "value",
    (
        [0, {}, b"", SIG],
        [1, {}, b"", SIG],
        [3, SIG[:63]],
        [3, "s" * 64],
        [3],
        [3, SIG, 1],
        [4],
        [4, 1, 1],
        [4, True],
        [4, -1],
        [4, "1"],
        [5, 1],
        [5, 1, 1 << 16],
        [5, 1, 1, None],
        [5, 1, 1, b"text"],
        [5, 1, 1, "x" * 201],
        [5, 1, 1, "x", 1],
        [5, True, 1],
        [6],
        [6, -1],
        [6, 1 << 63, 0],
        [7, 1, 2],
        [7, 1, 2, 3, None],
        [7, 1, 2, 3, [4]],
        [7, 1, 2, 3, [4, ID[1:]]],
        [7, 1, 2, 3, [4, ID], 5],
        [8],
        [8, "shutdown"],
        [9, ID],
        [9, ID, []],
        [9, ID[1:], [[KEY, "delivered"]]],
        [9, ID, [[KEY]]],
        [9, ID, [[KEY, ""]]],
        [9, ID, [[KEY, "x" * 33]]],
        [9, ID, [[KEY, "queued", None]]],
        [9, ID, [[KEY, "queued", 1, 1]]],
        [9, ID, [["bob", "queued"]]],
        [9, ID, [[True, "queued"]]],
        [9, ID, [[-1, "queued"]]],
        [10, KEY, 1, ID, ID],
        [10, KEY, 1, ID, ID[1:], 13],
        [10, 0, 1, ID, ID, 13],
        [11],
        [11, None],
        [True, SIG],
        ["hello", {}],
        [-1],
        [],
        {},
        4,
    ),
    ids=repr,
)
def test_refused(value: Any) -> None:
    with pytest.raises(Malformed) as caught:
        link.decode_item(encode(value))
    assert not isinstance(caught.value, link.UnknownItem)


@pytest.mark.parametrize(
    "changed",
    (
        {"v": []},
        {"v": [1] * 17},
        {"v": [True]},
        {"v": 1},
        {"role": "ghost"},
        {"role": b"app"},
        {"epoch": bytes(7)},
        {"nonce": bytes(17)},
        {"dur": 1},
        {"frame": -1},
        {"msgs": "many"},
        {"bytes": 1 << 63 << 1},
        {"feat": ["x" * 33]},
        {"feat": ["x"] * 17},
        {"feat": "outcome"},
        {"key": bytes(32)},
        {"key": None},
        {"name": None},
        {"name": "x" * 65},
        {"pubsub": bytes(32)},
        {"pubsub": bytes(31)},
    ),
    ids=repr,
)
def test_hello_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        link.decode_item(encode([2, FIELDS | changed]))


@pytest.mark.parametrize("key", ("v", "role", "epoch", "dur", "frame", "msgs", "bytes", "feat", "nonce"))
def test_hello_lacks_nothing(key: str) -> None:
    with pytest.raises(Malformed, match=f"hello lacks {key}"):
        link.decode_item(encode([2, {name: one for name, one in FIELDS.items() if name != key}]))


def test_hello_names_the_pubsub_service_of_a_router() -> None:
    found = link.decode_item(encode([2, FIELDS | {"pubsub": BOB.public}]))
    assert found == replace(HELLO, pubsub=BOB.public) and link.encode_item(found) == encode(
        [2, FIELDS | {"pubsub": BOB.public}]
    )


@pytest.mark.parametrize("run", [[], [1], [1, 2, 3], [1, -2], [LIFE_MAX + 1, 2], [1, "2"], {"life": 1}, None])
def test_a_run_of_another_shape_is_refused(run: object) -> None:
    with pytest.raises(Malformed):
        link.decode_item(encode([2, FIELDS | {"run": run}]))


def test_hello_can_grow() -> None:
    assert link.decode_item(encode([2, FIELDS | {"zone": [1, {"a": None}], "x": "y"}])) == HELLO


def test_hello_has_a_limit() -> None:
    with pytest.raises(TooLarge, match="the limit is 2048"):
        link.decode_item(encode([2, FIELDS | {"zone": bytes(2048)}]))
    largest = link.Hello(
        versions=((1 << 64) - 1,) * link.VERSIONS_MAX, role="router", epoch=bytes(8), durable=True,
        frame_bytes_max=(1 << 64) - 1, window_messages=(1 << 64) - 1, window_bytes=(1 << 64) - 1,
        features=("x" * link.FEATURE_BYTES_MAX,) * link.FEATURES_MAX, nonce=bytes(16),
        key=ALICE.public, name="n" * link.NAME_BYTES_MAX, run=link.Run(LIFE_MAX, (1 << 64) - 1), was=CHAIN,
        pubsub=ALICE.public, discovery=ALICE.public,
    )  # fmt: skip
    assert len(link.encode_item(largest)) <= link.HELLO_BYTES_MAX
    assert link.decode_item(link.encode_item(largest)) == largest


def test_a_hello_that_would_be_refused_is_not_sent() -> None:
    for broken in (
        link.Hello((), "app", bytes(8), True, 1, 1, 1, (), bytes(16)),
        link.Hello((1,), "app", bytes(7), True, 1, 1, 1, (), bytes(16)),
        link.Hello((1,), "app", bytes(8), True, 1, 1, 1, ("x" * 33,), bytes(16)),
    ):
        with pytest.raises(ValueError, match="this hello would be refused"):
            link.encode_item(broken)


def test_texts_are_cleaned_both_ways() -> None:
    said = link.encode_item(link.Goodbye(Reason.INTERNAL, "oh\x1b[2J\nno " + "x" * 300))
    assert value_of(said) == [8, 28, "oh[2Jno " + "x" * 192]
    assert link.decode_item(encode([8, 28, "a\x00\u202eb"])) == link.Goodbye(28, "ab")
    assert link.decode_item(encode([2, FIELDS | {"name": "ba\x07kery"}])) == HELLO


def test_outcomes_are_limited() -> None:
    one = link.RecipientOutcome(BOB.public, "refused", 65_535)
    most = link.Outcome(IDS[0], (one,) * link.OUTCOME_RECIPIENTS_MAX)
    wire = link.encode_item(most)
    assert len(wire) <= link.OUTCOME_BYTES_MAX
    assert link.decode_item(wire) == most
    for recipients in ((), (one,) * (link.OUTCOME_RECIPIENTS_MAX + 1)):
        with pytest.raises(ValueError, match="1 to 16384 recipients"):
            link.encode_item(link.Outcome(IDS[0], recipients))
    with pytest.raises(Malformed):
        link.decode_item(encode([9, ID, [[KEY, "a"]] * (link.OUTCOME_RECIPIENTS_MAX + 1)]))


def test_an_outcome_of_several_messages() -> None:
    row = link.RecipientOutcome(BOB.public, "acked")
    many = link.Outcome(IDS[0], (row,), (IDS[1], IDS[2]))
    wire = encode([9, bytes(IDS[0]), [[bytes(BOB.public), "acked"]], bytes(IDS[1] + IDS[2])])
    assert (link.encode_item(many), link.decode_item(wire)) == (wire, many)
    assert list(many.each()) == [link.Outcome(id, (row,)) for id in IDS[:3]]
    most = link.Outcome(IDS[0], (row,), (IDS[1],) * link.OUTCOME_MORE_MAX)
    assert link.decode_item(link.encode_item(most)) == most
    with pytest.raises(ValueError, match="1023 further messages"):
        link.encode_item(link.Outcome(IDS[0], (row,), (IDS[1],) * (link.OUTCOME_MORE_MAX + 1)))
    for more in (b"", bytes(33), bytes(32 * (link.OUTCOME_MORE_MAX + 1)), "x" * 32):
        with pytest.raises(Malformed):
            link.decode_item(encode([9, ID, [[KEY, "a"]], more]))


def test_messages_are_no_link_items() -> None:
    with pytest.raises(Malformed, match="a message stands where a link item is read"):
        link.decode_item(UNICASTS[0])


# -- proofs ----------------------------------------------------------------------------------------


def test_what_a_proof_signs() -> None:
    assert link.proof_bytes("dialler", b"a", b"b") == b"upsycle link proof 1dialler" + digest(b"a") + digest(b"b")


def test_a_proof_fits_one_side_of_one_pair_of_hellos() -> None:
    ours, theirs = link.encode_item(ITEMS[0]), link.encode_item(ITEMS[1])
    proof = ALICE.sign(link.proof_bytes("dialler", ours, theirs))
    assert verify(ALICE.public, link.proof_bytes("dialler", ours, theirs), proof)
    assert not verify(ALICE.public, link.proof_bytes("listener", ours, theirs), proof)  # reflected
    assert not verify(ALICE.public, link.proof_bytes("dialler", theirs, ours), proof)  # swapped
    assert not verify(ALICE.public, link.proof_bytes("dialler", ours, theirs[:-1] + b"x"), proof)  # downgraded


def test_a_proof_is_never_a_message() -> None:
    assert link.PROOF_LABEL[0] not in (0, 1)  # R-B7


def test_a_link_has_two_sides() -> None:
    with pytest.raises(ValueError, match='no "server"'):
        link.proof_bytes("server", b"", b"")


def test_heads_are_the_codec_s_own() -> None:
    assert link.encode_item(link.Settled(77)) == b"\x82\x04" + head(77, 0)
