"""What a peer may say of link items, how much and how often, and that it is judged before it is read."""

from __future__ import annotations

import pytest
from session_pair import item, opened

from router.core import link
from router.core.machine import RemoteProtocolError
from router.core.reasons import Reason
from router.core.session import Allowance


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
