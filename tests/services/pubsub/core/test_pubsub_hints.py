"""Routers that group links name are dialled at once, again with pauses, and not for ever (R-C28)."""

from __future__ import annotations

from rigs.pubsub_sides import NOW, Side
from samples.core import ADDRESSES

from router.core.wire.crypto import SigningKey
from router.core.wire.hint import Hint
from router.service import contract as c
from services.pubsub.core.hints import HintLimits, Hints
from services.pubsub.core.known import Known, Topic
from services.pubsub.core.others import Others

GROUP, ROUTER, SERVICE, ME = (SigningKey(bytes((n,)) * 32).public for n in (91, 92, 93, 94))
HINT = Hint(ROUTER, ADDRESSES[:2])


def made(**limits: int) -> Hints:
    known = Known(SERVICE)
    known.router = ME
    return Hints(known, Others(), HintLimits(**limits))


def at(seconds: float) -> c.Now:
    return c.Now(NOW.wall_s + seconds, NOW.mono_s + seconds)


def test_it_is_made_known_and_dialled_at_once() -> None:
    deeds = made().hear(c.Hinted(GROUP, (HINT, Hint(ME, ADDRESSES[:1]))), at(0))
    learned, dialled, wake = deeds
    assert learned == c.Learn(ROUTER, (ADDRESSES[0].url, ADDRESSES[1].url), int(NOW.wall_s) + 7200, how="hint")
    assert (dialled, wake) == (c.Dial(ROUTER), c.Wake(NOW.wall_s + 5.0))


def test_it_is_dialled_again_with_longer_pauses_and_given_up_at_last() -> None:
    hints, seconds, dialled = made(tries_max=5), 0.0, [0.0]
    deeds = hints.hear(c.Hinted(GROUP, (HINT,)), at(0))
    while isinstance(deeds[-1] if deeds else None, c.Wake):
        wake = deeds[-1]
        assert isinstance(wake, c.Wake)
        seconds = wake.at_s - NOW.wall_s
        deeds = hints.hear(c.Tick(), at(seconds))
        dialled += [seconds] * sum(isinstance(one, c.Dial) for one in deeds)
    assert dialled == [0.0, 5.0, 15.0, 35.0, 75.0] and repr(hints) == "<0 routers that hints name are dialled>"


def test_once_a_group_is_shared_or_nobody_wants_it_it_is_not_dialled() -> None:
    for is_shared in (True, False):
        known = Known(SERVICE)
        known.topics[GROUP] = Topic(GROUP)
        hints = Hints(known, Others())
        hints.hear(c.Hinted(GROUP, (HINT,)), at(0))
        if is_shared:
            known.share(ROUTER, {GROUP: bytes(16)})
        else:
            hints.hear(c.Wanted(GROUP, False), at(1))
        assert hints.hear(c.Tick(), at(60)) == []


def test_one_that_is_gone_again_before_a_group_is_shared_is_dialled_again() -> None:
    others = Others()
    hints = Hints(Known(SERVICE), others)
    hints.hear(c.Hinted(GROUP, (HINT,)), at(0))
    others.linked[ROUTER] = SERVICE
    assert hints.hear(c.Tick(), at(5)) == [c.Wake(NOW.wall_s + 15)], "it is connected"
    del others.linked[ROUTER]
    assert c.Dial(ROUTER) in hints.hear(c.Tick(), at(15))


def test_the_same_hint_again_starts_nothing_anew_but_new_addresses_do() -> None:
    hints = made()
    hints.hear(c.Hinted(GROUP, (HINT,)), at(0))
    assert not [one for one in hints.hear(c.Hinted(GROUP, (HINT,)), at(1)) if isinstance(one, c.Dial)]
    moved = Hint(ROUTER, ADDRESSES[2:3])
    assert c.Dial(ROUTER) in hints.hear(c.Hinted(GROUP, (moved,)), at(2))


def test_more_than_are_dialled_at_once_are_forgotten_oldest_first() -> None:
    hints = made(hinted_max=2)
    for number in range(5):
        key = SigningKey(bytes((1, number)) * 16).public
        hints.hear(c.Hinted(GROUP, (Hint(key, ADDRESSES[:1]),)), at(0))
    assert repr(hints) == "<2 routers that hints name are dialled>"


def test_the_service_of_a_hinted_router_is_met_as_soon_as_it_is_linked() -> None:
    one, two = Side(1, [GROUP]), Side(2, [GROUP])
    one.hear(c.Hinted(GROUP, (Hint(two.router.public, ADDRESSES[:1]),)))
    assert c.Dial(two.router.public) in one.take(c.Dial)
    one.seconds = 2.0
    one.hear(c.Linked(two.router.public, two.service.public))
    assert [each.via for each in one.take(c.Send)] == [two.router.public]
