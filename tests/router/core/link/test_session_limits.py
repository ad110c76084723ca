"""The limits of a peer's link items, in size, number and rate, which are checked before an item is decoded."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from rigs.session_pair import exchange, item, offer, opened, pair, said
from samples.core import ALICE, BOB, IDS

from router.core.link.allowance import Allowance
from router.core.link.machine import RemoteProtocolError
from router.core.link.session import OtherItem, Session, Welcome
from router.core.wire import link_items as link
from router.core.wire.reasons import Reason


def test_pings_are_limited_and_settling_is_not() -> None:
    _, router = opened()
    for _ in range(50):
        router.receive(item(link.Ping(1)), 0)
    with pytest.raises(RemoteProtocolError) as error:
        router.receive(item(link.Pong(1, 2, 3)), 0)
    assert error.value.reason is Reason.RATE_LIMITED
    _, router = opened()
    for second in range(100):
        for _ in range(10):
            router.receive(item(link.Ping(1)), second)
    router.receive(b"".join(item(link.Settled(n)) for n in range(1, 1000)), 100)


def test_settling_nothing_further_is_limited() -> None:
    _, router = opened()
    with pytest.raises(RemoteProtocolError) as error:
        router.receive(item(link.Settled(0)) * 1000, 0)
    assert error.value.reason is Reason.RATE_LIMITED and len(error.value.before) == 50


@pytest.mark.parametrize("said", [link.Settled(4), link.Refused(1, Reason.NO_ROUTE)], ids=["settled", "refused"])
def test_no_more_is_settled_or_refused_than_was_sent(said: link.Item) -> None:
    app, router = opened()
    router.note_sent(0)
    router.note_sent(3)
    with pytest.raises(RemoteProtocolError, match="3 were sent") as error:
        router.receive(item(said) * 1000, 0)
    assert error.value.reason is Reason.MALFORMED and len(error.value.before) <= 3
    app.receive(item(said) * 40, 0)  # whoever does not count holds it against nothing


def test_an_allowance_saves_up_to_its_burst() -> None:
    allowance = Allowance(2.0, 4.0)
    assert [allowance.take(1, 0) for _ in range(5)] == [True] * 4 + [False]
    assert [allowance.take(1, 1) for _ in range(3)] == [True, True, False]
    assert not allowance.take(5, 1000) and allowance.take(4, 1000)
    assert all(Allowance(0, 0).take(1 << 40, 0) for _ in range(9)), "no rate, no limit"


# -- judged by the first bytes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("beginning", "reason", "text"),
    [
        (b"\x83\x09", Reason.MALFORMED, "Outcome is said to apps, not to a router"),
        (b"\x82\x0b", Reason.TOO_LARGE, "redelivered of 65535 bytes; the limit is 256"),
        (b"\x82\x06", Reason.TOO_LARGE, "ping of 65535 bytes; the limit is 256"),
        (b"\x84\x06", Reason.MALFORMED, "ping has 3 values; 1 to 1 are allowed"),
        (b"\x83\x0c", Reason.TOO_LARGE, "claimed of 65535 bytes; the limit is 256"),
        (b"\x82\x0e", Reason.UNSUPPORTED, "link item type 14 is unknown"),
        (b"\xa1\x06", Reason.MALFORMED, "a link item: not an array of 1 to 23 values"),
    ],
)
def test_an_item_is_refused_before_the_rest_of_it_has_come(beginning: bytes, reason: Reason, text: str) -> None:
    _, router = opened()
    with pytest.raises(RemoteProtocolError, match=text) as error:
        router.receive(b"\x59\xff\xff" + beginning + bytes(8), 0)
    assert error.value.reason is reason


def test_an_outcome_is_heard_only_where_it_was_asked_for() -> None:
    outcome = item(link.Outcome(IDS[0], (link.RecipientOutcome(3, "queued"),)))
    app, _ = opened()
    assert app.receive(outcome, 0) == [OtherItem(link.Outcome(IDS[0], (link.RecipientOutcome(3, "queued"),)))]
    app = Session(replace(offer("app", b"d" * 16), features=()), ALICE, dialler=True, peer=BOB.public)
    exchange(app, Session(offer(nonce=b"l" * 16), BOB, dialler=False, peer=ALICE.public))
    with pytest.raises(RemoteProtocolError, match="said to apps that asked for it"):
        app.receive(outcome, 0)


# -- who is let in, and as what ----------------------------------------------------------------------------------


def test_who_is_not_let_in_is_heard_no_further_than_its_hello_or_proof() -> None:
    for proven in (True, False):
        app, _ = pair(proven=proven)
        asked: list[bytes] = []
        router = Session(
            offer(nonce=b"l" * 16), BOB, dialler=False, peer=ALICE.public if proven else None, welcome=asked.append
        )
        app.receive(said(router), 0)
        with pytest.raises(RemoteProtocolError) as error:
            router.receive(said(app) + item(link.Ping(1)), 0)
        assert error.value.reason is Reason.NOT_AUTHORISED and error.value.before == [] and asked == [ALICE.public]


def test_a_stranger_is_told_of_a_shorter_frame_and_held_to_it_and_reports_no_more_than_it_pings() -> None:
    app, _ = pair(proven=True)
    router = Session(
        offer(nonce=b"l" * 16), BOB, dialler=False, peer=ALICE.public, welcome=lambda _: Welcome(True, 2000)
    )
    exchange(app, router)
    assert router.is_stranger and router.machine.bytes_max == 2000
    missed = item(link.Missed(None, 1, IDS[0], IDS[0], 13))
    with pytest.raises(RemoteProtocolError) as error:
        router.receive(missed * 51, 0)
    assert error.value.reason is Reason.RATE_LIMITED and len(error.value.before) == 50
    with pytest.raises(RemoteProtocolError, match="frame of 2001 bytes; the limit is 2000"):
        router.receive(b"\x59\x07\xd1", 0)
    _, router = opened()
    assert len(router.receive(missed * 51, 0)) == 51, "whom we know has a reason for each"
