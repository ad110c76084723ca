"""Events as values: the sequence numbers they take, their bytes in the store, and their counts."""

from pathlib import Path
from struct import pack

import cbor2
import pytest
from cddl_verifier import Validator  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from router.core.log.events import (
    FIELD_MAX,
    INT64_MAX,
    OUTWARD_EVENTS,
    STATE_EVENTS,
    TIMES_MAX,
    TURNED_EVENTS,
    Accepted,
    Event,
    EventCounts,
    Noted,
    Outward,
    RouterChange,
    Turned,
    decode_events,
    encode_events,
    reason_word,
    span,
    stands_for,
)
from router.core.wire.codec import Malformed
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.reasons import Reason

CDDL = Validator(Path(__file__).parents[4] / "cddl" / "event.cddl")
BOOT = bytes(range(16))
GROUP, ALICE, BOB = (SigningKey(bytes([number]) * 32).public for number in (1, 2, 3))

natural = st.integers(0, FIELD_MAX)
keys = st.binary(min_size=32, max_size=32)
words = st.integers(0, (1 << 32) - 1)


def accepted(count: int = 2, first: int = 7, recipients: tuple[bytes, ...] = (ALICE, BOB)) -> Accepted:
    ids = b"".join(bytes([number]) * 32 for number in range(count))
    columns = [pack(f"<{count}I", *range(start, start + count)) for start in (1000, 60, 3_000_000)]
    return Accepted(5, 6, first, 1, GROUP, None, ALICE, 3, recipients, ids, *columns)


@st.composite
def _accepted(draw: st.DrawFn) -> Accepted:
    count = draw(st.integers(1, 4))
    kind = draw(st.integers(0, 1))
    column = st.lists(words, min_size=count, max_size=count).map(lambda row: pack(f"<{count}I", *row))
    return Accepted(
        draw(natural), draw(natural), draw(natural), kind, draw(keys), None if kind else draw(keys),
        draw(st.none() | keys), draw(natural), tuple(draw(st.lists(keys, max_size=3))),
        draw(st.binary(min_size=32 * count, max_size=32 * count)), draw(column), draw(column), draw(column),
    )  # fmt: skip


@st.composite
def _turned(draw: st.DrawFn) -> Turned:
    named = draw(st.integers(0, 3))
    return Turned(
        draw(natural), draw(natural), draw(st.sampled_from(sorted(TURNED_EVENTS))), draw(st.none() | keys),
        draw(natural), draw(st.sampled_from(Reason)),
        draw(st.binary(min_size=32 * named, max_size=32 * named)),
        named + draw(st.integers(0, 1000)), draw(st.none() | keys), draw(natural), draw(natural),
    )  # fmt: skip


_outward = st.builds(
    Outward, natural, natural, st.sampled_from(sorted(OUTWARD_EVENTS)), keys, natural,
    st.lists(st.tuples(natural, words), max_size=3).map(tuple), st.none() | st.integers(1, 99),
    natural, natural, natural, natural,
)  # fmt: skip
_value = st.text(max_size=20) | st.integers(-FIELD_MAX, FIELD_MAX) | st.binary(max_size=40) | st.booleans()
_state = st.builds(
    RouterChange, natural, natural, st.sampled_from(sorted(STATE_EVENTS)),
    st.lists(st.tuples(st.text(max_size=10), _value) | st.tuples(st.just("times"), words), max_size=4).map(tuple),
).filter(lambda state: 0 <= stands_for(state) < 1 << 32)  # fmt: skip
an_event: st.SearchStrategy[Event] = st.one_of(_accepted(), _outward, _turned(), _state)
some_events = st.lists(an_event, max_size=5)


# -- encoding -------------------------------------------------------------------------------------------


@given(some_events, st.integers(1, INT64_MAX), st.binary(min_size=16, max_size=16))
def test_what_was_encoded_is_what_is_decoded(events: list[Event], first_seq: int, boot: bytes) -> None:
    assert decode_events(encode_events(events, first_seq, boot)) == (first_seq, boot, events)


@given(some_events)
def test_every_value_is_what_the_cddl_says(events: list[Event]) -> None:
    result = CDDL.validate(encode_events(events, 1, BOOT))
    assert result, result.format()


def test_the_bytes_of_a_value() -> None:
    """The bytes are in existing databases: a change needs another version."""
    delivered = Outward(1 << 40, 24, "delivered", ALICE, 3, ((7, 2),), None, 0, 1, 500, 6)
    turned = Turned(2, 3, "duplicate", BOB, 4, Reason.DUPLICATE, b"", 70, None, 3072, 7)
    state = RouterChange(4, 5, "join", (("group", GROUP), ("local", True), ("members", 2), ("name", "ü")))
    assert encode_events([delivered, turned, state], 9, BOOT).hex() == (
        "84010950" + BOOT.hex() + "83"
        "8c011b00000100000000001818" "6964656c697665726564" "5820" + ALICE.hex() + "0381820702f600011901f406"
        "8c020203" "696475706c6963617465" "5820" + BOB.hex() + "0405401846f6190c0007"
        "85030405" "646a6f696e" "84"
        "82" "6567726f7570" "5820" + GROUP.hex() + "82" "656c6f63616c" "f5"
        "82" "676d656d62657273" "02" "82" "646e616d65" "62c3bc"
    )  # fmt: skip


def test_keys_and_reasons_go_in_as_what_they_are() -> None:
    event = Outward(1, 2, "refused", PublicKey(ALICE), 1, ((1, 1),), Reason.LEFT, 0, 0, 0, 1)
    [back] = decode_events(encode_events([event], 1, BOOT))[2]
    assert back == event
    assert isinstance(back, Outward)
    assert type(back.recipient) is bytes and type(back.reason) is int


def test_a_turned_event_may_lack_size_and_duration() -> None:
    row = [2, 1, 2, "refused", ALICE, 3, 4, b"", 9, None]
    assert decode_events(cbor2.dumps([1, 1, BOOT, [row]]))[2] == [
        Turned(1, 2, "refused", ALICE, 3, 4, b"", 9, None, 0, 0)
    ]


def test_text_and_numbers_that_no_reader_takes_are_stored_as_text_that_it_does() -> None:
    odd = RouterChange(1, 2, "start", (("path", "caf\udce9"), ("limit", 1 << 64), ("below", -(1 << 70)), ("on", True)))
    [back] = decode_events(encode_events([odd], 1, BOOT))[2]
    fields = (("path", "caf?"), ("limit", str(1 << 64)), ("below", str(-(1 << 70))), ("on", True))
    assert back == RouterChange(1, 2, "start", fields)


@pytest.mark.parametrize(
    "event",
    [
        replace(accepted(), sizes=b""),
        replace(accepted(), ids=b""),
        replace(accepted(), ids=bytes(63)),
        Outward(1, 2, "vanished", ALICE, 0, (), None, 0, 0, 0, 1),
        Turned(1, 2, "expired", None, 0, 1, b"", 0, None),
        Turned(1, 2, "refused", None, 0, 1, bytes(32), 0, None),
        Turned(1, 2, "refused", None, 0, 1, bytes(31), 5, None),
        RouterChange(1, 2, "rained", ()),
    ],
)
def test_what_could_not_be_read_again_is_not_written(event: Event) -> None:
    with pytest.raises(AssertionError):
        encode_events([event], 1, BOOT)


# -- decoding -------------------------------------------------------------------------------------------


@given(st.binary(max_size=200))
def test_any_bytes_are_events_or_malformed(data: bytes) -> None:
    try:
        decode_events(data)
    except Malformed:
        pass


@given(some_events, st.data())
def test_a_value_cut_short_or_changed_is_events_or_malformed(events: list[Event], data: st.DataObject) -> None:
    value = encode_events(events, 1, BOOT)
    with pytest.raises(Malformed):
        decode_events(value[: data.draw(st.integers(0, len(value) - 1))])
    with pytest.raises(Malformed, match="1 bytes follow"):
        decode_events(value + b"\0")
    at = data.draw(st.integers(0, len(value) - 1))
    changed = value[:at] + bytes([value[at] ^ data.draw(st.integers(1, 255))]) + value[at + 1 :]
    try:
        decode_events(changed)
    except Malformed:
        pass


NONE = [[], "x", None, [1, 1, BOOT], [1, 1, BOOT, {}], [1, 1, BOOT, [], 5]]
ROWS = [
    [],
    7,
    [4, 1, 2],
    ["accepted"],
    [True, 1, 2],
    [3, 1, 2, "start"],
    [3, 1, 2, "", []],
    [3, -1, 2, "start", []],
    [3, 1, 1 << 63, "start", []],
    [3, 1, 2, "start", [["a", 1.5]]],
    [3, 1, 2, "start", [["a", None]]],
    [3, 1, 2, "start", [["a", [1]]]],
    [3, 1, 2, "start", [[1, "a"]]],
    [1, 1, 2, "acked", bytes(31), 1, [[1, 1]], None, 0, 0, 0],
    [1, 1, 2, "acked", bytes(32), 1, [[1]], None, 0, 0, 0],
    [1, 1, 2, "acked", bytes(32), 1, [[1, 2]], "left", 0, 0, 0],
    [2, 1, 2, "refused", None, 1, 1, bytes(33), 5, None],
    [2, 1, 2, "refused", None, 1, 1, bytes(64), 1, None],
    [0, 1, 2, 3, 3, bytes(32), None, None, 1, [], bytes(32), bytes(4), bytes(4), bytes(4)],
    [0, 1, 2, 3, 1, bytes(32), None, None, 1, [], bytes(32), bytes(4), bytes(8), bytes(4)],
    [0, 1, 2, 3, 1, bytes(32), None, None, 1, [], b"", b"", b"", b""],
]


@pytest.mark.parametrize("raw", [*NONE, *([1, 1, BOOT, [row]] for row in ROWS), [1, 0, BOOT, []], [1, 1, b"", []]])
def test_another_shape_is_malformed(raw: object) -> None:
    with pytest.raises(Malformed):
        decode_events(cbor2.dumps(raw))


def test_a_newer_version_says_so() -> None:
    with pytest.raises(Malformed, match="has version 2; this router reads version 1"):
        decode_events(cbor2.dumps([2, 1, BOOT, []]))


def test_what_a_newer_router_adds_to_an_event_is_ignored() -> None:
    raw = [1, 1, BOOT, [[3, 1, 2, "renamed", [["a", 1]], "new", [4]]]]
    assert decode_events(cbor2.dumps(raw))[2] == [RouterChange(1, 2, "renamed", (("a", 1),))]


# -- what an event counts for ---------------------------------------------------------------------------


def test_only_an_accepted_event_takes_more_than_one_sequence_number() -> None:
    outward = Outward(1, 2, "delivered", ALICE, 3, ((7, 40), (60, 2)), None, 0, 1, 500, 7)
    turned = Turned(1, 2, "refused", ALICE, 3, Reason.BAD_SIGNATURE, bytes(32), 70, None)
    state = RouterChange(1, 2, "stop", ())
    assert [span(event) for event in (accepted(5), outward, turned, state)] == [5, 1, 1, 1]
    assert [stands_for(event) for event in (accepted(5), outward, turned, state)] == [5, 42, 70, 1]


@pytest.mark.parametrize(("times", "count"), [(7, 7), (0, 1), (-4, 1), (10**15, TIMES_MAX), ("7", 1), (True, 1)])
def test_what_a_service_notes_counts_as_its_times_if_a_line_can_say_that(times: int | str, count: int) -> None:
    assert stands_for(Noted(1, 2, "echo_heard", ALICE, b"", None, (("times", times),))) == count


def test_reasons_have_words_and_those_of_services_numbers() -> None:
    assert reason_word(Reason.QUEUE_FULL_NODE) == "queue-full-node"
    assert reason_word(120) == "reason-120"


def test_counts() -> None:
    counts = EventCounts()
    assert repr(counts) == "<Counts: nothing yet>"
    counts.add([accepted(5), RouterChange(1, 2, "start", ())])
    counts.add(
        [
            Outward(1, 2, "delivered", ALICE, 3, ((7, 4),), None, 0, 1, 500, 7),
            Outward(1, 2, "expired", BOB, 3, ((7, 1),), Reason.TTL_EXPIRED, 0, 1, 500, 7),
            Outward(1, 2, "refused", BOB, 3, ((8, 3),), Reason.QUEUE_FULL_RECIPIENT, 0, 1, 0, 7),
            Turned(1, 2, "refused", ALICE, 3, Reason.BAD_SIGNATURE, b"", 70, None),
            Turned(1, 2, "refused", ALICE, 3, Reason.BAD_SIGNATURE, b"", 2, None),
        ]
    )
    assert counts.events() == {"accepted": 5, "start": 1, "delivered": 4, "expired": 1, "refused": 75}
    assert counts.reasons() == {"ttl-expired": 1, "queue-full-recipient": 3, "bad-signature": 72}
    assert counts.reasons("refused") == {"queue-full-recipient": 3, "bad-signature": 72}
    assert repr(counts) == "<Counts: 5 accepted, 4 delivered, 1 expired, 75 refused, 1 start>"
