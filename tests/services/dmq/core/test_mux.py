"""SDUs: the stored ones, cut anywhere, in turn; refused ones; and messages that span them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rigs.each_case import each_case
from samples.dmq import VECTORS, raw

from router.core.link.machine import Agency, RemoteProtocolError
from router.core.wire.codec import Malformed, TooLarge, encode
from router.core.wire.reasons import Reason
from services.dmq.core.cbor import array_of
from services.dmq.core.protocols.mux import SENT_BYTES_MAX, Demultiplexer, Fragment, Inbox, Multiplexer, sdu
from services.dmq.core.protocols.notification import LOOSE_REPLY

BOTH = [(number, side) for number in (0, 11, 14, 15) for side in (Agency.INITIATOR, Agency.RESPONDER)]
SUBMIT, ASK = (14, Agency.INITIATOR), (15, Agency.INITIATOR)
STORED = [one for one in VECTORS["sdus"] if "payload_hex" in one]


@pytest.mark.parametrize("vector", STORED, ids=lambda one: one["name"])
def test_stored_sdus(vector: dict[str, Any]) -> None:
    side = Agency.RESPONDER if vector["responder_bit"] else Agency.INITIATOR
    channel, payload = (vector["protocol"], side), raw(vector["payload_hex"])
    assert sdu(channel, payload, vector["timestamp"]).hex() == vector["sdu_hex"]
    assert list(Demultiplexer(BOTH).feed(raw(vector["sdu_hex"]), 0)) == [Fragment(channel, payload)]


def test_the_stored_empty_sdu_is_refused() -> None:
    [vector] = [one for one in VECTORS["sdus"] if "payload_hex" not in one]
    with pytest.raises(RemoteProtocolError, match="an SDU is empty"):
        list(Demultiplexer(BOTH).feed(raw(vector["sdu_hex"]), 0))


@pytest.mark.parametrize(
    ("channels", "cause"),
    (
        ([SUBMIT], "protocol 15 is unknown"),
        ([(15, Agency.RESPONDER)], "protocol 15 does not run here for the initiator"),
        ([], "protocol 15 is unknown"),
    ),
)
def test_what_does_not_run_here(channels: Any, cause: str) -> None:
    with pytest.raises(RemoteProtocolError, match=cause) as caught:
        list(Demultiplexer(channels).feed(sdu(ASK, b"\x00", 0), 0))
    assert caught.value.reason is Reason.UNSUPPORTED


PAYLOADS = st.lists(st.tuples(st.sampled_from(BOTH), st.binary(min_size=1, max_size=50)), max_size=8)


@given(PAYLOADS, st.lists(st.integers(1, 40), max_size=30))
def test_cut_anywhere_the_bytes_of_each_channel_are_the_same(payloads: Any, sizes: list[int]) -> None:
    stream = b"".join(sdu(channel, payload, 7) for channel, payload in payloads)
    demultiplexer = Demultiplexer(BOTH)
    found: list[Fragment] = []
    for size in [*sizes, len(stream) + 1]:
        found += demultiplexer.feed(stream[:size], 0)
        stream = stream[size:]
    for channel in BOTH:
        come = b"".join(payload for one, payload in found if one == channel)
        assert come == b"".join(payload for one, payload in payloads if one == channel)


def test_an_sdu_that_comes_whole_is_read_at_once_when_its_head_was_judged_before() -> None:
    demultiplexer, one = Demultiplexer(BOTH), sdu(ASK, b"abc", 0)
    assert demultiplexer.whole(one) is None
    list(demultiplexer.feed(one, 0))
    assert demultiplexer.whole(one) == (ASK[0], b"abc")
    for other in (one[:-1], one + b"\x00", one + one, one[:8], sdu(ASK, b"", 0), b""):
        assert demultiplexer.whole(other) is None
    for part in (one[:3], one[3:-1]):
        list(demultiplexer.feed(part, 0))
        assert demultiplexer.whole(one) is None
    list(demultiplexer.feed(one[-1:], 0))
    assert demultiplexer.whole(one)
    demultiplexer.channels = frozenset()
    assert demultiplexer.whole(one) is None


def test_an_sdu_is_due_from_its_first_byte_to_its_last() -> None:
    demultiplexer = Demultiplexer(BOTH)
    assert demultiplexer.deadline_s() == float("inf")
    whole = sdu(ASK, b"\x82\x00", 0)
    for at, byte in enumerate(whole[:-1]):
        list(demultiplexer.feed(bytes((byte,)), 100.0 + at))
        assert demultiplexer.deadline_s() == 130.0 and demultiplexer.deadline_s(10.0) == 110.0
    assert repr(demultiplexer) == "<Demultiplexer of 8 channels, 1 bytes of an SDU to come>"
    assert list(demultiplexer.feed(whole[-1:] + whole[:3], 120.0)) == [Fragment(ASK, whole[-1:])]
    assert demultiplexer.deadline_s() == 150.0
    assert repr(demultiplexer) == "<Demultiplexer of 8 channels, 3 bytes of a head>"


def taken(multiplexer: Multiplexer) -> list[bytes]:
    return list(iter(lambda: multiplexer.take(1), b""))


def test_long_messages_take_turns() -> None:
    multiplexer = Multiplexer()
    multiplexer.add(ASK, b"a" * (2 * SENT_BYTES_MAX + 1))
    multiplexer.add(SUBMIT, b"s")
    multiplexer.add(SUBMIT, b"t")
    assert len(multiplexer) == 2 * SENT_BYTES_MAX + 3
    assert repr(multiplexer) == f"<Multiplexer with {2 * SENT_BYTES_MAX + 3} bytes for 2 protocols>"
    written = [next(iter(Demultiplexer(BOTH).feed(one, 0))) for one in taken(multiplexer)]
    assert [(channel[0], len(payload)) for channel, payload in written] == [
        (15, SENT_BYTES_MAX), (14, 2), (15, SENT_BYTES_MAX), (15, 1),
    ]  # fmt: skip
    assert not len(multiplexer) and multiplexer.take(1) == b""


def test_the_clock_wraps() -> None:
    assert sdu(ASK, b"x", (1 << 32) + 5)[:4] == bytes((0, 0, 0, 5))


@given(st.lists(st.binary(max_size=30).map(encode), max_size=6), st.integers(1, 40))
def test_messages_are_cut_whatever_the_pieces(messages: list[bytes], size: int) -> None:
    inbox, stream = Inbox(1000), b"".join(messages)
    found: list[bytes] = []
    for at in range(0, len(stream), size):
        inbox.add(stream[at : at + size])
        found += list(iter(lambda: inbox.take(1000), None))
    assert found == messages and not len(inbox)


def test_one_byte_at_a_time_costs_little_for_each() -> None:
    """A list of many items is not scanned again for each byte: the scanner continues where it stopped."""
    inbox = Inbox(1 << 20)
    inbox.add(b"\x99\xff\xff")
    seen = []
    for _ in range(200):
        inbox.add(b"\x00")
        assert inbox.take(1 << 20) is None
        seen.append(inbox._scanner.bytes_announced if inbox._scanner else 0)
    assert seen == list(range(4, 204))


def test_the_queue_is_bounded() -> None:
    inbox = Inbox(10)
    inbox.add(bytes(10))
    with pytest.raises(RemoteProtocolError, match="more than 10 bytes wait for their turn") as caught:
        inbox.add(b"x")
    assert caught.value.reason is Reason.WINDOW_EXCEEDED
    assert repr(inbox) == "<Inbox of 10 bytes, 10 at most>"


def test_a_message_is_refused_as_soon_as_its_heads_are_too_long() -> None:
    inbox = Inbox(1000)
    inbox.add(bytes.fromhex("8200590200"))
    with pytest.raises(TooLarge, match="at least 517 bytes; the limit in this state is 100"):
        inbox.take(100)
    inbox = Inbox(1000)
    inbox.add(b"\xff")
    with pytest.raises(Malformed, match="a break stands"):
        inbox.take(100)


@each_case({f"{one['protocol']} {one['name']} {at}": (one,) for at, one in enumerate(VECTORS["protocol_messages"])})
def test_stored_messages_of_all_protocols_are_cut_whole(vector: dict[str, str]) -> None:
    """The stored messages include those between nodes, which nothing here reads yet."""
    wire = raw(vector["hex"])
    inbox = Inbox(1 << 16, LOOSE_REPLY)
    inbox.add(wire + b"\x81\x03")
    first = inbox.take(1 << 16)
    assert first is not None and wire.removeprefix(first) in (b"", b"\xf4")
    assert inbox.take(1 << 16) == b"\x81\x03"


ONE = b"\x9f" + array_of(b"\x01", b"\x02") + b"\xff"
REPLIES = {"two items": b"\x82\x02" + ONE, "pallas": b"\x83\x02" + ONE, "old": b"\x83\x02" + ONE + b"\xf4"}


@pytest.mark.parametrize("first", REPLIES.values(), ids=REPLIES)
@pytest.mark.parametrize("second", REPLIES.values(), ids=REPLIES)
@pytest.mark.parametrize("size", (1, 2, 3, 100))
def test_blocking_replies_of_all_forms_end_where_they_end(first: bytes, second: bytes, size: int) -> None:
    inbox, stream, found = Inbox(100, LOOSE_REPLY), first + second + b"\x81\x03", []
    for at in range(0, len(stream), size):
        inbox.add(stream[at : at + size])
        found += list(iter(lambda: inbox.take(100), None))
    assert found == [first.removesuffix(b"\xf4"), second.removesuffix(b"\xf4"), b"\x81\x03"]
    assert not len(inbox)
