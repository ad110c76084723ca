"""The order of messages between Nexa nodes, as tables and as bytes; and each fault, with its reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from samples.capd import BORN, posted

from router.core.link.machine import Agency, LocalProtocolError, Machine, RemoteProtocolError
from router.core.wire.reasons import Reason
from services.capd import reasons
from services.capd.core.nexa import commands as n
from services.capd.core.nexa import own_commands as own
from services.capd.core.nexa.envelope import MAGICS, Packet, Unpacker
from services.capd.core.nexa.greeting import CAPD_KEY, COOKIES_KEY, EXTVERSION, Version
from services.capd.core.nexa.packets import (
    COMMANDS,
    PAYLOADS,
    ExtVersion,
    Ping,
    Pong,
    Reject,
    Verack,
    checksum,
    packet_of,
    read_packet,
)
from services.capd.core.nexa.session import Heard, Session, Unreadable
from services.capd.core.nexa.tables import PACKET_S, TABLES, Said
from services.capd.core.pattern import Pattern

REGTEST = MAGICS["regtest"]
VECTORS = Path(__file__).parents[4] / "vectors" / "capd"
DIALLER, LISTENER = Agency.INITIATOR, Agency.RESPONDER
GREETING = Version(BORN, 7, b"/test/")
OWN = (
    own.MaskedQuery(5, n.IDS, 1, 0xFFFFFFFF, Pattern.of(b"TKD\x08", b"\xff\xff\xff\x0f")),
    own.GetHeld(1 << 63, 0xFFFFFFFF),
    own.HeldIds(9, (bytes(32), b"\x01" * 32)),
    own.RescindSecrets((b"", b"s" * 520)),
)


def wire(*messages: object, cookie: int = 0) -> bytes:
    return b"".join(packet_of(one, cookie).encoded(REGTEST) for one in messages)  # type: ignore[arg-type]


GREET = wire(GREETING, ExtVersion(EXTVERSION), Verack())


def a_listener() -> Session:
    return Session(LISTENER, REGTEST, Version(BORN, 8, b"/own/"), 0.0)


# -- tables ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", (DIALLER, LISTENER))
def test_tables_are_complete(side: Agency) -> None:
    """Compare every state, message and side: the next state, or the refusal."""
    other = LISTENER if side is DIALLER else DIALLER
    pings, all_kinds = {Ping, Pong}, {Version, ExtVersion, Verack, Ping, Pong, Reject, *COMMANDS}
    allowed: dict[Said, dict[type, Said]] = {
        Said.NOTHING: {Version: Said.VERSION, Reject: Said.NOTHING},
        Said.VERSION: {ExtVersion: Said.EXTVERSION, **dict.fromkeys((*pings, Reject), Said.VERSION)},
        Said.EXTVERSION: {Verack: Said.VERACK, **dict.fromkeys((*pings, Reject), Said.EXTVERSION)},
        Said.VERACK: dict.fromkeys(all_kinds - {Version, ExtVersion, Verack}, Said.VERACK),
    }
    assert set(TABLES[side]) == set(Said) == set(allowed)
    for state in Said:
        for kind in all_kinds:
            machine = Machine(TABLES[side], state, we=other)
            if kind in allowed[state]:
                assert machine.step(side, kind) is allowed[state][kind]
                continue
            with pytest.raises(RemoteProtocolError, match=f"{side.value} sent {kind.__name__} in {state.value}"):
                machine.step(side, kind)
            with pytest.raises(LocalProtocolError):
                Machine(TABLES[side], state, we=side).step(side, kind)
            assert machine.state is state
        for kind in allowed[state]:  # the other side may send none of these
            with pytest.raises(LocalProtocolError, match="where it is the turn of"):
                Machine(TABLES[side], state, we=other).step(other, kind)


def test_payloads_bound_every_command_that_is_read() -> None:
    assert {*n.READERS, *own.OWN_READERS, "version", "extversion", "xversion", "verack", "ping", "pong"} == set(
        PAYLOADS
    )


@pytest.mark.parametrize("message", OWN, ids=lambda one: type(one).__name__)
def test_own_commands_survive_encoding_and_decoding(message: own.OwnCommand) -> None:
    packet = packet_of(message)
    assert read_packet(packet) == message and len(packet.payload) <= PAYLOADS[packet.command]
    assert len(packet.command) <= 12


# -- greetings ------------------------------------------------------------------------------------------------------


def test_sessions_of_ours_greet_each_other() -> None:
    dialler, listener = Session(DIALLER, REGTEST, GREETING, 0.0), a_listener()
    while dialler.queued_bytes or listener.queued_bytes:
        assert listener.hear(dialler.take(), 0.0) == dialler.hear(listener.take(), 0.0) == []
    assert dialler.is_open and listener.is_open
    assert (dialler.version, listener.version) == (Version(BORN, 8, b"/own/"), GREETING)
    dialler.say(n.GetInfo(), 0x5_0000)
    assert listener.hear(dialler.take(), 0.0) == [Heard(n.GetInfo(), 0x5_0000)]


def test_session_answers_the_greeting_of_the_vectors_in_the_deployed_order() -> None:
    steps = [one for one in json.loads((VECTORS / "handshake.json").read_text())["steps"] if "packet_nexa" in one]
    listener = Session(LISTENER, MAGICS["nexa"], Version(BORN, 8, b"/own/"), 0.0)
    said = []
    for step in steps:
        listener.hear(bytes.fromhex(step["packet_nexa"]), 0.0)
        said.append([one.command for one in Unpacker(MAGICS["nexa"]).feed(listener.take())])
    assert said[:2] == [["version", "extversion"], ["verack"]] and listener.is_open


def test_checksum_takes_the_place_of_the_cookie_until_the_other_knows_cookies() -> None:
    for values, knows in ((EXTVERSION, True), ({CAPD_KEY: 7}, False), ({CAPD_KEY: 1, COOKIES_KEY: 0}, False)):
        session = a_listener()
        session.hear(wire(GREETING), 0.0)
        for packet in Unpacker(REGTEST).feed(session.take()):
            assert packet.cookie == checksum(packet.payload), "of version and extversion"
        session.hear(wire(ExtVersion(values), Verack()), 0.0)
        session.take()
        session.say(n.GetInfo(), 0x6_0000)
        [packet] = Unpacker(REGTEST).feed(session.take())
        assert packet.cookie == (0x6_0000 if knows else checksum(b""))


def test_session_answers_pings_from_the_version_on_and_ignores_unknown_commands() -> None:
    session = a_listener()
    unknown = Packet("sendheaders", b"x" * 5_000_000).encoded(REGTEST)
    assert session.hear(wire(GREETING) + unknown + wire(Ping(5)), 0.0) == []
    assert [one.command for one in Unpacker(REGTEST).feed(session.take())] == ["version", "extversion", "pong"]
    assert (session.skipped, session.packets) == (5_000_000, 3)


WRONG: list[tuple[str, bytes, Reason, str]] = [
    ("wrong magic", MAGICS["nexa"] + bytes(20), reasons.WRONG_NETWORK, "the magic is 72(271221)? instead of eae5efea"),
    ("no magic", b"GET / HTTP/1.1\r\n", reasons.WRONG_NETWORK, "the magic is 47(455420)? instead"),
    ("second version", GREET + wire(GREETING), reasons.OUT_OF_TURN, "initiator sent Version in open"),
    ("second extversion", GREET + wire(ExtVersion({})), reasons.OUT_OF_TURN, "initiator sent ExtVersion in open"),
    ("second verack", GREET + wire(Verack()), reasons.OUT_OF_TURN, "initiator sent Verack in open"),
    ("no version", wire(ExtVersion(EXTVERSION)), reasons.OUT_OF_TURN, "initiator sent ExtVersion in silent"),
    ("no extversion", wire(GREETING, Verack()), reasons.NO_POOL, "ends its greeting without an extversion"),
    ("no bit", wire(replace(GREETING, services=1)), reasons.NO_POOL, "says that it knows no extversion"),
    (
        "old protocols",
        wire(replace(GREETING, protocol=80_002)) * 9,
        reasons.BAD_PACKET,
        "the protocol 80002 is too old",
    ),
    ("itself", wire(replace(GREETING, nonce=8)), reasons.ITSELF, "its greeting is our own"),
    (
        "cut versions",
        Packet("version", bytes(30)).encoded(REGTEST) * 9,
        reasons.BAD_PACKET,
        "version: the protocol 0 is",
    ),
    ("long version", Packet("version", bytes(1025)).encoded(REGTEST), reasons.BAD_PACKET, "1025 bytes; the limit is"),
    (
        "length bomb",
        Packet("capdmsg").encoded(REGTEST)[:16] + b"\xff" * 8,
        reasons.BAD_PACKET,
        "capdmsg has a payload of 4294967295 bytes; the limit is 33554432",
    ),
    (
        "length bomb of what is not known",
        Packet("block").encoded(REGTEST)[:16] + b"\xff" * 8,
        reasons.BAD_PACKET,
        "block has a payload of 4294967295 bytes; the limit is 33554432",
    ),
    (
        "too many numbers",
        wire(GREETING) + Packet("extversion", b"\xfd\x01\x04" + bytes(9000)).encoded(REGTEST) * 9,
        reasons.BAD_PACKET,
        "an extversion of 1025 numbers",
    ),
    ("no name", REGTEST + b"\n" * 20, reasons.BAD_PACKET, "a packet without a command has a payload of 168430090"),
]


@pytest.mark.parametrize(("name", "data", "reason", "said"), WRONG, ids=[one[0] for one in WRONG])
def test_session_gives_a_reason_and_a_sentence_for_wrong_bytes_whole_or_one_by_one(
    name: str, data: bytes, reason: Reason, said: str
) -> None:
    for parts in ([data], [data[at : at + 1] for at in range(len(data))]):
        session = a_listener()
        with pytest.raises(RemoteProtocolError, match=said) as found:
            for part in parts:
                session.hear(part, 0.0)
        assert found.value.reason is reason and reason.sentence.endswith(".")


def test_unreadable_payload_is_no_fault_of_the_connection() -> None:
    session = a_listener()
    session.hear(GREET, 0.0)
    bomb = b"\xfe\xff\xff\xff\x0f"
    cases = (
        ("capdmsg", bomb, "counts 268435455, more than"),
        ("capdmsg", b"\xfd\x89\x13" + bytes(5001 * 15), "counts 5001; the limit is 5000"),
        ("capdinv", b"\x48\xfd\x01\x00" + bytes(32), "non-canonical"),
        ("capdgetmsg", bytes(8) + b"\x01" + bytes(31), "more than 31 bytes can hold"),
        ("capdq", bytes(12), "the data ends within the query"),
        ("capdinfo", bytes(23), "the data ends within a priority"),
        ("capdremove", b"", "the data ends within the cookie"),
        ("capdrescind", b"\x11" + bytes(17), "counts 17; the limit is 16"),
        ("capdrescind", b"\x01\xfd\x09\x02" + bytes(521), "the limit is 520"),
        ("capdmaskq", bytes(13) + b"\x01" + bytes(31), "bits outside its mask"),
        ("capdheld", bytes(8) + b"\xfd\xd1\x07", "counts 2001; the limit is 2000"),
        ("ping", bytes(7), "the data ends within the nonce"),
    )
    for name, payload, said in cases:
        [(message, cookie)] = session.hear(Packet(name, payload, 0x7_0000).encoded(REGTEST), 0.0)
        assert isinstance(message, Unreadable) and said in message.text and message.command == name, name
        assert cookie == 0x7_0000
    assert session.hear(wire(n.GetInfo()), 0.0) == [Heard(n.GetInfo(), 0)], "it goes on"


def test_listener_goes_on_after_a_greeting_that_cannot_be_read_and_parts_with_one_without_a_pool_later() -> None:
    session = a_listener()
    early = session.hear(wire(n.GetInfo(), Ping(3)) + wire(replace(GREETING, protocol=80_002)), 0.0)
    assert early == [] and [one.command for one in Unpacker(REGTEST).feed(session.take())] == ["reject"]
    assert session.hear(wire(GREETING, n.GetInfo(), ExtVersion({COOKIES_KEY: 1}), Verack(), Ping(3)), 1.0) == []
    said = [one.command for one in Unpacker(REGTEST).feed(session.take())]
    assert said == ["version", "extversion", "verack", "pong"] and not session.is_open
    assert session.overdue(10.9) is None and session.overdue(11.0) == (reasons.NO_POOL, "its extversion names none")
    dialler = Session(Agency.INITIATOR, REGTEST, replace(GREETING, nonce=8), 0.0)
    with pytest.raises(RemoteProtocolError, match="its extversion names none"):
        dialler.hear(wire(GREETING, ExtVersion({COOKIES_KEY: 1})), 0.0)


def test_overdue_names_what_is_late() -> None:
    session = a_listener()
    assert session.overdue(9.9) is None and session.overdue(10.0) == (reasons.TOO_SLOW, "silent for 10 s")
    session.hear(wire(GREETING), 9.0)
    assert session.overdue(18.9) is None and session.overdue(19.0) == (reasons.TOO_SLOW, "greeted for 10 s")
    session.hear(wire(ExtVersion(EXTVERSION), Verack()), 18.0)
    assert session.overdue(1e9) is None
    data = wire(n.GetInfo(), n.GetInfo())
    for at in range(23):
        session.hear(data[at : at + 1], 20.0 + at)
    assert session.overdue(20.0 + PACKET_S - 1) is None
    assert session.overdue(20.0 + PACKET_S) == (reasons.TOO_SLOW, "a packet is not whole after 120 s")
    session.hear(data[23:24], 300.0)
    assert session.overdue(1e9) is None, "it is whole"
    session.hear(Packet("block", bytes(100)).encoded(REGTEST)[:60], 400.0)
    assert session.overdue(400.0 + PACKET_S), "what is not read has an end, too"


@settings(max_examples=settings().max_examples)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(sorted(PAYLOADS)), st.binary(max_size=60)).map(
                lambda one: Packet(*one, 7).encoded(REGTEST)
            ),
            st.sampled_from([wire(one) for one in OWN] + [wire(n.Msg((posted(b"x"),))), GREET[:40], b"\xea"]),
            st.binary(max_size=30),
        ),
        max_size=4,
    ),
    st.booleans(),
)
def test_session_turns_any_bytes_into_messages_or_a_protocol_error(parts: list[bytes], is_greeted: bool) -> None:
    data = (GREET if is_greeted else b"") + b"".join(parts)
    outcomes = []
    for pieces in ([data], [data[at : at + 1] for at in range(len(data))]):
        session, heard, fault = a_listener(), list[Heard](), None
        try:
            for piece in pieces:
                heard += session.hear(piece, 0.0)
        except RemoteProtocolError as error:
            heard += error.before
            fault = error.reason
        outcomes.append((heard, fault, session.take()))
    assert outcomes[0] == outcomes[1]
