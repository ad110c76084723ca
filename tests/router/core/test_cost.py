"""The cost of hostile bytes: no reader does more work for them than the table allows.

Work is counted in instructions of the interpreter, not in time; memory in bytes allocated at the peak. Each reader has
a fixed allowance and one for each byte. Costs that grow with the number of items, for which one byte is enough, are
bounded by the reader's limit on items.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings, target
from hypothesis import strategies as st
from rigs.session_pair import offer
from rigs.work import allocated, opcodes
from samples.core import (
    ADVERTISEMENTS,
    ALICE,
    APPLICATIONS,
    BOB,
    CONTENT_KEYS,
    CONTROLS,
    GROUP,
    INVITATIONS,
    ITEMS,
    LINKS,
    PREKEY,
    PREKEY_ANSWERS,
    PREKEY_SEEDS,
    REDEMPTIONS,
    RENEWAL,
    SEALED,
    SEALED_BODIES,
    SEALED_TO_BOB,
    SUCCESSION,
    WANTED,
    WIRES,
)
from samples.discovery import MESSAGES
from samples.dmq_messages import SUBMISSION
from samples.pubsub import MESSAGES as PUBSUB

from router.core.link.machine import RemoteProtocolError
from router.core.link.session import MessageRun, Session
from router.core.routing.intake import read_messages
from router.core.why.report import OUTCOMES_MAX, NeighbourReport, RecipientCount, decode_report, encode_report
from router.core.wire import link_items as link
from router.core.wire.address import parse_address
from router.core.wire.admin import Answer, Inquiry, decode_inquiry, encode_inquiry
from router.core.wire.advert import decode_advertisement, decode_datagram
from router.core.wire.application import SealError, decode_application, unseal, unseal_unicast
from router.core.wire.codec import Malformed, decode, first_of, frame, frame_bounds, head, split_frames, unframe
from router.core.wire.control import decode_control, encode_control
from router.core.wire.grouplink import parse_link
from router.core.wire.hint import decode_hint
from router.core.wire.invitation import parse_peer_link
from router.core.wire.message import open_message, read_header
from router.core.wire.prekey import decode_prekey, encode_prekey
from router.core.wire.prekey_exchange import decode_answer as decode_prekey_answer
from router.core.wire.pubsub import decode_wanted, encode_wanted
from router.core.wire.redemption import decode_redemption, encode_redemption
from router.core.wire.renewal import (
    decode_renewal,
    decode_renewal_notice,
    encode_renewal,
    encode_renewal_notice,
)
from router.core.wire.succession import decode_succession, encode_succession
from router.core.wire.text import BadText
from router.core.wire.unicast_seal import read_body as read_sealed_body
from router.core.wire.whereabouts import decode_about_places, decode_whereabouts
from services.capd.core.messages import decode_message as decode_capd
from services.capd.core.nexa.commands import READERS
from services.capd.core.nexa.envelope import Packet
from services.capd.core.nexa.own_commands import OWN_READERS
from services.capd.core.nexa.packets import read_packet
from services.discovery.core.messages import decode_message, encode_message
from services.dmq.core.protocols import handshake, keep_alive, peer_sharing, submission
from services.pubsub.core.messages import decode_message as decode_pubsub
from services.pubsub.core.messages import encode_message as encode_pubsub
from services.pubsub.core.rendezvous.words import decode_point_word

ROOT = Path(__file__).parents[3]
CORES = (ROOT / "router" / "core", *ROOT.glob("services/*/core"))


class Cost(NamedTuple):
    """A reader, and its allowances: instructions in all cases, instructions for each byte, and bytes of memory for each
    byte."""

    read: Callable[[bytes], object]
    fixed: int
    per_byte: float
    memory_per_byte: int = 8


def said_to(role: str, envelope: Callable[[bytes], bytes] = frame) -> Callable[[bytes], object]:
    """Feed the bytes in one read to an open session: as one frame, or unframed."""

    def receive(data: bytes) -> None:
        session = Session(offer(role, messages=4096, size=8 << 20), BOB, dialler=False, peer=ALICE.public)
        session.receive(hello, 0)
        session.note_sent(0)
        session.receive(envelope(data), 0)

    hello = b"".join(Session(offer("router"), ALICE, dialler=True, peer=BOB.public).output())
    return receive


def all_messages(data: bytes) -> object:
    framed = frame(data)
    return read_messages(1, MessageRun(1, framed, split_frames(framed)[0]))


def any_command(data: bytes) -> object:
    """Read the bytes as a payload of each command."""
    found: list[object] = []
    for name in (*READERS, *OWN_READERS):
        try:
            found.append(read_packet(Packet(name, data)))
        except Malformed as error:
            found.append(error)
    return found


COSTS = {
    "codec.decode": Cost(lambda data: decode(data, 64), 7000, 0.1),
    "codec.first_of": Cost(first_of, 300, 0.1),
    "codec.frame_bounds": Cost(lambda data: frame_bounds(data, 0), 300, 0.1),
    "codec.split_frames": Cost(split_frames, 300, 80, 200),  # a frame has one byte at least
    "codec.unframe": Cost(unframe, 600, 0.1),
    "message.read_header": Cost(lambda data: read_header(data, 0, len(data)), 1000, 0.1),
    "message.open_message": Cost(open_message, 3000, 0.1),
    "intake.read_messages": Cost(all_messages, 3000, 0.1),
    "link_items.form_of": Cost(lambda data: link.form_of(data[: link.HELLO_BYTES_MAX], len(data)), 500, 0.1),
    "link_items.decode_item": Cost(
        link.decode_item, 12_000, 110, 80
    ),  # only of an outcome: apps ask their own node for it
    "session to a router": Cost(said_to("router"), 18_000, 0.1),
    "stream to a router": Cost(said_to("router", bytes), 700_000, 0.1, 16),  # a window of 4096 messages
    "session to an app": Cost(said_to("app"), 18_000, 110, 80),
    "control.decode_control": Cost(decode_control, 3000, 0.1),
    "pubsub.decode_wanted": Cost(decode_wanted, 2000, 0.1),
    "admin.decode_inquiry": Cost(decode_inquiry, 2000, 0.1),
    "report.decode_report": Cost(decode_report, 20_000, 20, 64),  # a router that was asked may say a hundred words
    "prekey.decode_prekey": Cost(decode_prekey, 2000, 0.1),
    "grouplink.parse_link": Cost(lambda data: parse_link("upsycle:" + data.decode("latin-1")), 12_000, 0.1),
    "hint.decode_hint": Cost(decode_hint, 16_000, 0.1),
    "invitation.parse_peer_link": Cost(lambda data: parse_peer_link("upsycle:" + data.decode("latin-1")), 12_000, 0.1),
    "discovery's messages.decode_message": Cost(
        decode_message, 120_000, 8
    ),  # up to eight advertisements, or 1,024 tags
    "pubsub's messages.decode_message": Cost(decode_pubsub, 400_000, 8),  # up to 64 advertisements
    "words.decode_point_word": Cost(decode_point_word, 60_000, 8),  # up to four advertisements
    "handshake.decode_message": Cost(handshake.decode_message, 6000, 200),  # of at most 5,760 bytes, head by head
    "keep_alive.decode_message": Cost(keep_alive.decode_message, 3000, 200),  # of at most 1,408 bytes
    "peer_sharing.decode_message": Cost(peer_sharing.decode_message, 3000, 200),  # of at most 5,760
    "peer_sharing.decode_address": Cost(peer_sharing.decode_address, 3000, 200),
    "submission.decode_message": Cost(submission.decode_message, 3000, 200),  # of at most 4,098 bytes
    "submission.decode_item": Cost(submission.decode_item, 3000, 200),
    "capd's messages.decode_message": Cost(decode_capd, 8000, 60, 64),  # up to 8,192 ids
    "commands.decode_command": Cost(any_command, 15_000, 90, 64),  # all 12 of them, message by message
    "redemption.decode_redemption": Cost(decode_redemption, 3000, 0.1),
    "renewal.decode_renewal": Cost(decode_renewal, 2000, 0.1),
    "succession.decode_succession": Cost(decode_succession, 2000, 0.1),
    "whereabouts.decode_whereabouts": Cost(decode_whereabouts, 8000, 0.1),
    "whereabouts.decode_about_places": Cost(decode_about_places, 8000, 0.1),
    "renewal.decode_renewal_notice": Cost(decode_renewal_notice, 2000, 0.1),
    "address.parse_address": Cost(lambda data: parse_address(data.decode("latin-1")), 6000, 0.1),
    "advert.decode_advertisement": Cost(decode_advertisement, 20_000, 0.1),
    "advert.decode_datagram": Cost(decode_datagram, 20_000, 0.1),
    "application.decode_application": Cost(lambda data: decode_application(data, GROUP.public), 350_000, 0.1),
    "application.unseal": Cost(lambda data: unseal(data, GROUP.public, CONTENT_KEYS), 5000, 0.1),
    "prekey_exchange.decode_answer": Cost(decode_prekey_answer, 2000, 0.1),
    "unicast_seal.read_body": Cost(read_sealed_body, 5000, 0.1),
    "application.unseal_unicast": Cost(lambda data: unseal_unicast(data, BOB.public, PREKEY_SEEDS), 5000, 0.1),
}
REPORT = NeighbourReport(
    "ab" * 32, 1, tuple(RecipientCount("x" * 150, "y" * 150, 1, 1, 1) for _ in range(OUTCOMES_MAX)), "z" * 1000
)
SAMPLES = (
    *map(encode_wanted, WANTED), *WIRES, *map(encode_control, CONTROLS),
    *map(link.encode_item, ITEMS), *APPLICATIONS, SEALED, SEALED_TO_BOB,
    encode_prekey(PREKEY), encode_renewal(RENEWAL), encode_renewal_notice(RENEWAL), encode_succession(SUCCESSION),
    *SEALED_BODIES, *PREKEY_ANSWERS,
    encode_inquiry(Inquiry("why", "ab 1")), encode_inquiry(Answer(b'{"why":{"message":"')),
    encode_report(REPORT), b'{"why": {"outcomes":', frame(WIRES[0]),
    *(one.text().removeprefix("upsycle:").encode() for one in (*LINKS, *INVITATIONS)),
    *map(encode_message, MESSAGES), *map(encode_pubsub, PUBSUB), *map(submission.encode_message, SUBMISSION),
    handshake.encode_message(handshake.propose(handshake.MAGICS["preview"])),
    *map(encode_redemption, REDEMPTIONS), *(one.message for one in ADVERTISEMENTS), b"tls://[2001:db8::7]:4101",
)  # fmt: skip
OUTCOME = b"\x83\x09\x58\x20" + bytes(32)
ACCEPT_VERSION, PROPOSE_VERSIONS = b"\x83\x01\x19\x10\x01", b"\x82\x00\xa1\x19\x10\x01"
OPENINGS: tuple[bytes, ...] = (
    b"",
    OUTCOME,
    ACCEPT_VERSION,
    PROPOSE_VERSIONS,
    *(bytes((0x81 + count, kind)) for count in range(6) for kind in range(13)),
    *(bytes((0x82, kind)) for kind in range(13, 19)),
)
FILLERS = (
    b"\xa0", b"\x80", b"\x00", b"\x40", b"\x60", b"\xf6", b"\x20", b"\x61a", b"\x41a", b"\x81\x00", b"\x82\x00\x61a",
    b"\xa1\x00\x00", b"\x18\xff", b"\xc0\x00", b"[", b'"",', b"\x42\x84\x00", b"\x43\x82\x04\x00",
)  # fmt: skip


def worst_of(opening: bytes, filler: bytes, size: int, major: int) -> bytes:
    """Return the worst input with that opening: as many fillers as fit behind it, as one array, map, string, nesting,
    or bare."""
    room = max(0, size - len(opening) - 5)
    count = room // len(filler)
    match major:
        case 5:  # its keys must differ
            pairs = (b"\x1a" + (1 << 31 | number).to_bytes(4, "big") + filler for number in range(room // 6))
            return opening + head(room // 6, 5) + b"".join(pairs)
        case 4:
            return opening + head(count, 4) + filler * count
        case 2:
            return opening + head(count * len(filler)) + filler * count
        case 1:
            return opening + b"\x81" * room
    return opening + filler * count


def effort(cost: Cost, data: bytes) -> int:
    return opcodes(lambda: read(cost, data))


def read(cost: Cost, data: bytes) -> None:
    try:
        cost.read(data)
    except (Malformed, SealError, BadText, RemoteProtocolError, IndexError):
        pass


def allowed(cost: Cost, data: bytes) -> float:
    return cost.fixed + cost.per_byte * len(data)


@pytest.mark.parametrize("name", COSTS)
def test_wide_deep_and_many_items_cost_no_more_than_is_said(name: str) -> None:
    """The inputs are the opening of each type with the smallest items behind it."""
    cost = COSTS[name]
    for opening in OPENINGS:
        for filler, major in ((b"\xa0", 4), (b"\x61a", 4), (b"\x00", 5), (b"\x00", 1), (b"\x82\x00\x61a", 4)):
            data = worst_of(opening, filler, 1 << 12, major)
            assert effort(cost, data) <= allowed(cost, data), f"{data[:12].hex()}…"


@pytest.mark.parametrize("name", COSTS)
@given(data=st.data())
@settings(suppress_health_check=list(HealthCheck))
def test_a_search_for_the_worst_finds_nothing_worse(name: str, data: st.DataObject) -> None:
    cost = COSTS[name]
    sample = data.draw(st.sampled_from(SAMPLES))
    opening = data.draw(st.sampled_from(OPENINGS) | st.integers(0, len(sample)).map(lambda end: sample[:end]))
    filler, major = data.draw(st.sampled_from(FILLERS)), data.draw(st.sampled_from((0, 1, 2, 4, 5)))
    wire = worst_of(opening, filler, data.draw(st.integers(8, 4096)), major)
    spent = effort(cost, wire)
    target(spent / allowed(cost, wire))
    assert spent <= allowed(cost, wire), f"{wire[:40].hex()}…"


@pytest.mark.parametrize("name", COSTS)
def test_what_is_refused_is_not_built(name: str) -> None:
    """C functions allocate the values that they build: a megabyte of empty maps would become sixty."""
    cost, size = COSTS[name], 1 << 17
    for opening in (
        b"",
        OUTCOME,
        b"\x82\x01",
        b"\x82\x02",
        b"\x82\x07",
        b"\x82\x08",
        b"\x83\x09",
        b"\x84\x01",
        b"\x82\xa5",
    ):
        data = worst_of(opening, b"\xa0", size, 4)
        assert allocated(lambda data=data: read(cost, data)) <= 100_000 + cost.memory_per_byte * size  # type: ignore[misc]


@pytest.mark.parametrize("name", COSTS)
def test_honest_samples_are_within_it_too(name: str) -> None:
    cost = COSTS[name]
    for sample in SAMPLES:
        assert effort(cost, sample) <= allowed(cost, sample)


def readers() -> Iterator[str]:
    """Return the functions in the cores of router and services that read the input of others; those of one name by
    their service too."""
    found = [
        (f"{path.stem}.{node.name}", core.parent.name)
        for core in CORES
        for path in sorted(core.rglob("*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith(("decode", "open_message", "unseal", "parse_"))
    ]
    owners = Counter(name for name, _ in set(found))
    yield from (f"{owner}'s {name}" if owners[name] > 1 else name for name, owner in found)


ELSEWHERE = {"events.decode_events", "id_prefix.parse_prefix", "line.decode_line", "text.parse_key"}
"""Readers of this node's own files, of its owner's input, and of log lines, which have limits of their own."""


def test_every_decoder_has_its_cost() -> None:
    assert set(readers()) - ELSEWHERE <= set(COSTS), "state what a byte of that costs"


@pytest.mark.parametrize("filler", [b"\x40", b"\x41\x82", b"\x42\x84\x00", b"\x43\x82\x04\x00", b"\x43\x82\x06\x00"])
def test_the_smallest_frames_end_the_link_before_they_are_all_cut(filler: bytes) -> None:
    cost = COSTS["stream to a router"]
    data = filler * ((1 << 17) // len(filler))
    assert effort(cost, data) <= allowed(cost, data)
    assert allocated(lambda: read(cost, data)) <= 1_000_000


def test_the_attacks_that_were_measured() -> None:
    """A hello with an item of 126 KB, and `82 09` with empty maps, once took 0.28 s; now their second byte ends it."""
    wide = b"\x82\x09" + head(126_000, 4) + b"\xa0" * 126_000
    honest = effort(COSTS["session to a router"], link.encode_item(link.Settled(0)))
    assert effort(COSTS["session to a router"], wide) < honest + 2000
