"""One link without I/O: the table, the handshake with and without proof, counting, limits, and bytes one by one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rigs.session_pair import exchange, item, offer, opened, pair, said
from rigs.tables import check_reachable, check_spec
from samples.core import ALICE, BOB, ITEMS, UNICASTS

from router.core.link.custody import CONTROL_SLACK_MESSAGES
from router.core.link.machine import Agency, Machine, RemoteProtocolError, with_limits
from router.core.link.session import Ended, MessageRun, OtherItem, RefusedAt, Session, SettledUpTo, Up
from router.core.link.table import PROVEN, PROVING, Message, St
from router.core.wire import link_items as link
from router.core.wire.codec import frame, head
from router.core.wire.crypto import PublicKey, Signature, SigningKey
from router.core.wire.reasons import Reason

MALLORY = SigningKey(b"m" * 32)
TALK = """Message -> StOpen Settled -> StOpen Refused -> StOpen Ping -> StOpen Pong -> StOpen Outcome -> StOpen
    Missed -> StOpen Redelivered -> StOpen OtherRun -> StOpen StoppedRun -> StOpen
    Goodbye -> StClosing""".replace("\n", " ")
SPEC = """
    StHello responder 10s 2048B Hello -> {after} Goodbye -> StClosing
    StProof responder 10s 256B Proof -> StOpen Goodbye -> StClosing
    StOpen responder 1052672B {talk}
    StClosing responder 5s 256B Settled -> StClosing Refused -> StClosing
"""


# -- the table ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("table", "after"), [(PROVEN, "StOpen"), (PROVING, "StProof")], ids=["proven", "proving"])
def test_the_table_is_the_link_page(table: object, after: str) -> None:
    check_spec(table, SPEC.format(after=after, talk=" ".join(TALK.split())))  # type: ignore[arg-type]


def test_every_state_is_reachable_where_the_link_proves_the_key() -> None:
    check_reachable(PROVING)
    assert {St.PROOF} == set(PROVING) - {St.HELLO} - {row for state in PROVEN for row in PROVEN[state].on.values()}


KINDS = [Message, *dict.fromkeys(type(one) for one in ITEMS)]


def test_every_state_and_word() -> None:
    """Messages that the table allows lead to its states; any other is the peer's fault, and changes nothing."""
    for table, state, kind in product((PROVEN, PROVING), St, KINDS):
        machine = Machine(table, state)
        if kind in table[state].on:
            assert machine.step(Agency.RESPONDER, kind) is table[state].on[kind], (state, kind)
            continue
        with pytest.raises(RemoteProtocolError, match=f"{kind.__name__} in {state.value}"):
            machine.step(Agency.RESPONDER, kind)
        assert machine.state is state, kind


@pytest.mark.parametrize("sample", [one for one in ITEMS if not isinstance(one, link.Hello)], ids=repr)
@pytest.mark.parametrize("to_app", [False, True], ids=["to a router", "to an app"])
def test_every_item_at_every_session(sample: link.Item, to_app: bool) -> None:
    """Before hello, before proof, open and closing, on both sides, each item gives an event, or an error that ends the
    link."""
    for state in St:
        dialler, listener = pair(proven=False)
        session = dialler if to_app else listener
        session.machine.state = state
        if state is not St.HELLO:
            session.hello = link.Hello((1,), "router", bytes(8), True, 1, 1, 1, (), bytes(16), BOB.public)
        allowed = type(sample) in PROVING[state].on and not isinstance(sample, link.Proof)
        for_apps = isinstance(sample, link.Outcome | link.Redelivered)
        for_routers = isinstance(sample, link.OtherRun | link.StoppedRun)
        if allowed and not (for_routers if to_app else for_apps):
            session.receive(item(sample), 0)
            assert session.machine.state is PROVING[state].on[type(sample)]
        else:
            with pytest.raises(RemoteProtocolError):
                session.receive(item(sample), 0)


# -- the handshake -----------------------------------------------------------------------------------------------


def test_where_the_transport_proves_the_key_a_hello_is_enough() -> None:
    app, router = pair(proven=True)
    heard_by_app, heard_by_router = exchange(app, router)
    [up] = heard_by_router
    assert isinstance(up, Up) and (up.peer, up.hello.role, up.hello.key) == (ALICE.public, "app", None)
    assert [type(one) for one in heard_by_app] == [Up] and app.is_open and router.is_open


def test_elsewhere_both_ends_prove_their_keys() -> None:
    app, router = pair(proven=False)
    heard_by_app, heard_by_router = exchange(app, router)
    assert [one.peer for one in heard_by_app if isinstance(one, Up)] == [BOB.public]
    assert [one.peer for one in heard_by_router if isinstance(one, Up)] == [ALICE.public]
    assert (app.peer, router.peer) == (BOB.public, ALICE.public)


def test_hello_proof_and_messages_may_come_in_one_read() -> None:
    app, router = pair(proven=False)
    app.receive(said(router), 0)
    events = router.receive(said(app) + frame(UNICASTS[0]), 0)
    assert [type(one) for one in events] == [Up, MessageRun]


def changed_proof(change: Callable[[bytes], bytes]) -> bytes:
    app, router = pair(proven=False)
    app.receive(said(router), 0)
    hello, proof = app.output()
    return hello + change(proof)


def test_a_wrong_proof_ends_it() -> None:
    _, router = pair(proven=False)
    wrong = Signature(MALLORY.sign(b"x"))
    with pytest.raises(RemoteProtocolError, match="the peer has not proven the key") as error:
        router.receive(changed_proof(lambda _: item(link.Proof(wrong))), 0)
    assert error.value.reason is Reason.BAD_SIGNATURE and not router.is_open and router.peer is None


def test_a_proof_of_another_session_ends_it() -> None:
    """The keys are the same, but the nonce differs, so a recorded handshake is worthless."""
    recorded = changed_proof(lambda proof: proof)
    router = Session(offer(nonce=b"2" * 16), BOB, dialler=False)
    with pytest.raises(RemoteProtocolError):
        router.receive(recorded, 0)


def test_a_reflected_handshake_ends_it() -> None:
    """A peer that sends our own bytes back has proven nothing."""
    mirror = Session(offer(nonce=b"d" * 16), ALICE, dialler=True)
    back = said(mirror)
    with pytest.raises(RemoteProtocolError) as error:
        mirror.receive(back, 0)
        mirror.receive(said(mirror), 0)
    assert error.value.reason is Reason.BAD_SIGNATURE


def test_a_hello_changed_on_the_way_ends_it() -> None:
    """No downgrade is possible, because both proofs cover both hellos as they were sent."""
    app, router = pair(proven=False)
    hello = link.Hello((1,), "app", b"epoch..8", False, 4096, 8, 4096, (), b"d" * 16, ALICE.public)
    app.receive(said(router), 0)
    _, proof = app.output()
    with pytest.raises(RemoteProtocolError, match="has not proven"):
        router.receive(item(hello) + proof, 0)


def test_another_key_than_the_dialled_one_ends_it() -> None:
    app = Session(offer("app"), ALICE, dialler=True, expect=BOB.public)
    stranger = Session(offer(), MALLORY, dialler=False)
    stranger.receive(said(app), 0)
    with pytest.raises(RemoteProtocolError, match=f"expected {BOB.public.hex()}, but {MALLORY.public.hex()}") as error:
        app.receive(said(stranger), 0)
    assert error.value.reason is Reason.NOT_AUTHORISED


GOOD = {"v": (1,), "messages": 8, "size": 4096, "key": ALICE.public}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"v": (2, 3)}, Reason.UNSUPPORTED), ({"messages": 0}, Reason.MALFORMED), ({"size": 0}, Reason.MALFORMED),
        ({"key": None}, Reason.NOT_AUTHORISED),
    ],
)  # fmt: skip
def test_a_hello_that_offers_nothing_useful_ends_it(change: dict[str, object], reason: Reason) -> None:
    words = {**GOOD, **change}
    hello = link.Hello(
        words["v"], "app", bytes(8), True, 4096, words["messages"], words["size"], (), bytes(16), words["key"],  # type: ignore[arg-type]
    )  # fmt: skip
    _, router = pair(proven=False)
    with pytest.raises(RemoteProtocolError) as error:
        router.receive(item(hello), 0)
    assert error.value.reason is reason


@pytest.mark.parametrize(
    "data", [b"\x59\x08\x01" + bytes(2049), b"\x59\x08\x01" + bytes(2100), bytes((0x59, 8, 1)) + bytes(2046)]
)
def test_nothing_long_is_waited_for_before_the_hello(data: bytes) -> None:
    _, router = pair(proven=False)
    with pytest.raises(RemoteProtocolError, match="frame of 2049 bytes; the limit is 2048") as error:
        for at in range(len(data)):
            router.receive(data[at : at + 1], 0)
    assert error.value.reason is Reason.TOO_LARGE


def test_nothing_long_is_waited_for_before_the_proof() -> None:
    app, router = pair(proven=False)
    router.receive(said(app), 0)
    with pytest.raises(RemoteProtocolError, match="frame of 1048576 bytes; the limit is 256"):
        router.receive(b"\x5a\x00\x10\x00\x00" + bytes(1020), 0)


@pytest.mark.parametrize("state", St)
def test_what_is_longer_than_its_row_allows_is_refused_at_its_first_bytes(state: St) -> None:
    _, router = pair(proven=False)
    router.machine.state = state
    router.machine.table = with_limits(router.machine.table, {state: {"bytes_max": 300}})
    with pytest.raises(RemoteProtocolError, match="frame of 301 bytes; the limit is 300") as error:
        router.receive(head(301), 0)
    assert error.value.reason is Reason.TOO_LARGE
    assert router.receive(head(300), 0) == [] and router.unfinished


def test_a_message_before_the_proof_ends_it() -> None:
    app, router = pair(proven=False)
    router.receive(said(app), 0)
    with pytest.raises(RemoteProtocolError, match="Message"):
        router.receive(frame(UNICASTS[0]), 0)


# -- messages, settling, refusing --------------------------------------------------------------------------------


def test_messages_are_counted_from_1_and_left_where_they_are() -> None:
    _, router = opened()
    data = item(link.Ping(5)) + frame(UNICASTS[0]) + frame(UNICASTS[1]) + item(link.Settled(0)) + frame(UNICASTS[2])
    ping, two, settled, one = router.receive(data, 0)
    assert ping == OtherItem(link.Ping(5)) and settled == SettledUpTo(0)
    assert isinstance(two, MessageRun) and isinstance(one, MessageRun)
    assert (two.first_k, one.first_k) == (1, 3)
    assert [two.data[start:end] for _, start, end in two.spans] == [UNICASTS[0], UNICASTS[1]]
    assert one.data is two.data and [one.data[at:end] for at, _, end in one.spans] == [frame(UNICASTS[2])]
    assert router.incoming.received == 3


def test_refusals_are_said_before_they_are_settled_and_nothing_twice() -> None:
    app, router = opened()
    router.receive(frame(UNICASTS[0]) * 3, 0)
    assert router.settle(3, [(2, Reason.NO_ROUTE, "nobody")]) == len(frame(UNICASTS[0])) * 3
    assert app.receive(said(router), 0) == [RefusedAt(2, Reason.NO_ROUTE, "nobody"), SettledUpTo(3)]
    assert router.settle(3) == 0 and said(router) == b""


def test_a_reason_of_a_later_version_reads_as_refused_by_the_peer() -> None:
    app, _ = opened()
    assert app.receive(item(link.Refused(1, 60, "new")), 0) == [RefusedAt(1, Reason.PEER_REFUSED, "new")]


def test_more_than_the_window_ends_it() -> None:
    _, router = opened()
    router.receive(frame(UNICASTS[0]) * (8 + CONTROL_SLACK_MESSAGES), 0)
    with pytest.raises(RemoteProtocolError) as error:
        router.receive(frame(UNICASTS[0]), 0)
    assert error.value.reason is Reason.WINDOW_EXCEEDED


def test_a_frame_over_the_limit_ends_it_at_its_first_bytes() -> None:
    one = Session(offer(), BOB, dialler=False, peer=ALICE.public)
    other = Session(offer(), ALICE, dialler=True, peer=BOB.public)
    exchange(one, other)
    with pytest.raises(RemoteProtocolError) as error:
        one.receive(b"\x5a\x7f\xff\xff\xff", 0)
    assert error.value.reason is Reason.TOO_LARGE


@pytest.mark.parametrize("data", [b"\x00", b"\x40", frame(b"\x81\x04"), b"\x58\x01x", frame(b"\xff\x63")])
def test_what_cannot_be_read_ends_it(data: bytes) -> None:
    _, router = opened()
    with pytest.raises(RemoteProtocolError) as error:
        router.receive(data, 0)
    assert error.value.reason is Reason.MALFORMED


@pytest.mark.parametrize(
    "bad", [b"\x00", b"\x40", frame(b"\x82\x0e\x00"), b"\x5a\x7f\xff\xff\xff", item(link.Proof(Signature(bytes(64))))]
)
def test_what_is_good_before_the_bad_is_given_out(bad: bytes) -> None:
    _, router = opened()
    with pytest.raises(RemoteProtocolError) as error:
        router.receive(item(link.Settled(0)) + frame(UNICASTS[0]) * 2 + bad + frame(UNICASTS[1]), 0)
    settled, messages = error.value.before
    assert settled == SettledUpTo(0) and isinstance(messages, MessageRun) and len(messages.spans) == 2
    assert router.incoming.received == 2


def test_an_item_of_a_later_version_ends_it() -> None:
    _, router = opened()
    with pytest.raises(RemoteProtocolError) as error:
        router.receive(frame(b"\x82\x0e\x00"), 0)
    assert error.value.reason is Reason.UNSUPPORTED


# -- link items --------------------------------------------------------------------------------------------------


def test_after_a_goodbye_only_settling_is_heard() -> None:
    app, router = opened()
    router.receive(frame(UNICASTS[0]), 0)
    app.goodbye(Reason.SHUTDOWN, "see you\x07")
    app.goodbye(Reason.INTERNAL)
    assert not app.is_open
    [event] = router.receive(said(app), 0)
    assert event == Ended(Reason.SHUTDOWN, "see you")
    assert (router.machine.timeout_s, router.machine.bytes_max) == (5.0, 256)
    assert router.receive(item(link.Refused(1, Reason.NO_ROUTE)) + item(link.Settled(1)), 0)
    with pytest.raises(RemoteProtocolError):
        router.receive(frame(UNICASTS[0]), 0)


# -- any cut of the bytes, any bytes -----------------------------------------------------------------------------


def stream() -> bytes:
    """Return all bytes that a router gets from an app: handshake, messages and items, and goodbye."""
    app, router = pair(proven=False)
    app.receive(said(router), 0)
    items = [
        one for one in ITEMS if type(one) in PROVEN[St.OPEN].on and not isinstance(one, link.Outcome | link.Redelivered)
    ]
    talk = [item(one) for one in items if not isinstance(one, link.Goodbye)] + [frame(wire) for wire in UNICASTS]
    return said(app) + b"".join(talk) + item(link.Goodbye(1))


def flat(events: list[object]) -> list[object]:
    """Return the messages one by one, wherever the reads were cut."""
    found: list[object] = []
    for event in events:
        if isinstance(event, MessageRun):
            found += [(event.first_k + at, event.data[start:end]) for at, (_, start, end) in enumerate(event.spans)]
        else:
            found.append(event)
    return found


def heard_in(pieces: list[bytes]) -> list[object]:
    _, router = pair(proven=False)
    said(router)
    return flat([event for piece in pieces for event in router.receive(piece, 0)])


@given(st.lists(st.integers(0, 3000), max_size=12))
def test_the_cut_of_the_bytes_does_not_matter(cuts: list[int]) -> None:
    data = stream()
    at = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[start:stop] for start, stop in pairwise(at)]
    assert heard_in(pieces) == heard_in([data])


def test_byte_by_byte_is_the_same_as_whole() -> None:
    data = stream()
    one_by_one = heard_in([data[at : at + 1] for at in range(len(data))])
    assert one_by_one == heard_in([data]) and len(one_by_one) > 15


@given(st.binary(max_size=200), st.sampled_from([b"", b"open", b"proof"]))
def test_any_bytes_are_events_or_the_peers_fault(data: bytes, where: bytes) -> None:
    app, router = opened() if where == b"open" else pair(proven=False)
    if where == b"proof":
        router.receive(said(app), 0)
    try:
        for at in range(len(data)):
            router.receive(data[at : at + 1], 0)
    except RemoteProtocolError as error:
        assert error.reason in Reason and error.text


def test_it_reads_like_a_sentence() -> None:
    _, router = pair(proven=False)
    assert repr(router) == "<session with nobody proven in StHello: 0 messages taken, 0 settled>"
    _, router = opened()
    router.receive(frame(UNICASTS[0]) * 3, 0)
    router.settle(1)
    name = ALICE.public.hex()[:8]
    assert repr(router) == f"<session with {name} in StOpen: 3 messages taken, 1 settled>"


def test_keys_are_points() -> None:
    hello = link.Hello((1,), "app", bytes(8), True, 4096, 8, 8, (), bytes(16), PublicKey(bytes(32)))
    with pytest.raises(ValueError, match="not a valid"):
        link.encode_item(hello)
