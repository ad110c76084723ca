"""Routers named by group links are dialled at once, and again with pauses while they are needed (R-C28)."""

from __future__ import annotations

from rigs.pubsub_sides import NOW, Side
from samples.core import ADDRESSES

from router.core.wire.crypto import SigningKey
from router.core.wire.hint import Hint
from router.service import contract as c
from router.service.roles import overlay as o
from services.pubsub.core.known import Known, Topic
from services.pubsub.core.meetings.hints import HintLimits, Hints
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
    deeds = made().hear(o.Hinted(GROUP, (HINT, Hint(ME, ADDRESSES[:1]))), at(0))
    learned, dialled, wake = deeds
    assert learned == c.AddNeighbour(ROUTER, (ADDRESSES[0].url, ADDRESSES[1].url), int(NOW.wall_s) + 7200, how="hint")
    assert (dialled, wake) == (o.Dial(ROUTER), c.Wake(NOW.wall_s + 5.0))


def dials(hints: Hints, until_s: float) -> list[float]:
    """Return the seconds at which the router is dialled, if the service gets each wake-up it asks for."""
    found: list[float] = []
    seconds, deeds = 0.0, hints.hear(o.Hinted(GROUP, (HINT,)), at(0))
    while seconds <= until_s:
        found += [seconds] * (o.Dial(ROUTER) in deeds)
        wake = deeds[-1]
        assert isinstance(wake, c.Wake)
        seconds = round(wake.at_s - NOW.wall_s, 3)
        deeds = hints.hear(c.Tick(), at(seconds))
    return found


def test_it_is_dialled_again_with_longer_pauses_and_given_up_at_last() -> None:
    assert dials(made(tries_max=5), 10_000) == [0.0, 5.0, 15.0, 35.0, 75.0]


def test_it_is_not_given_up_as_long_as_its_group_has_no_neighbour_here() -> None:
    known = Known(SERVICE)
    known.topics[GROUP] = Topic(GROUP)
    hints = Hints(known, Others(), HintLimits(tries_max=3, again_s_max=20.0))
    assert dials(hints, 100) == [0.0, 5.0, 15.0, 35.0, 55.0, 75.0, 95.0]


def test_once_nobody_wants_its_group_it_is_forgotten() -> None:
    hints = made()
    hints.hear(o.Hinted(GROUP, (HINT,)), at(0))
    hints.hear(o.Wanted(GROUP, False), at(1))
    assert hints.hear(c.Tick(), at(60)) == [] and repr(hints) == "<0 routers that hints name are dialled>"


def test_while_a_group_is_shared_it_is_not_dialled_and_later_again() -> None:
    """Two cores may forget each other after a long time apart, and know each other by the link alone."""
    known, others = Known(SERVICE), Others()
    known.topics[GROUP] = Topic(GROUP)
    hints = Hints(known, others)
    hints.hear(o.Hinted(GROUP, (HINT,)), at(0))
    known.share(ROUTER, {GROUP: bytes(16)})
    others.linked[ROUTER] = SERVICE
    assert hints.hear(c.Tick(), at(60)) == [c.Wake(NOW.wall_s + 120)]
    del others.linked[ROUTER]
    assert o.Dial(ROUTER) in hints.hear(c.Tick(), at(120))


def test_one_that_is_gone_again_before_a_group_is_shared_is_dialled_again() -> None:
    others = Others()
    hints = Hints(Known(SERVICE), others)
    hints.hear(o.Hinted(GROUP, (HINT,)), at(0))
    others.linked[ROUTER] = SERVICE
    assert hints.hear(c.Tick(), at(5)) == [c.Wake(NOW.wall_s + 15)], "it is connected"
    del others.linked[ROUTER]
    assert o.Dial(ROUTER) in hints.hear(c.Tick(), at(15))


def test_the_same_hint_again_starts_nothing_anew_but_new_addresses_do() -> None:
    hints = made()
    hints.hear(o.Hinted(GROUP, (HINT,)), at(0))
    assert not [one for one in hints.hear(o.Hinted(GROUP, (HINT,)), at(1)) if isinstance(one, o.Dial)]
    moved = Hint(ROUTER, ADDRESSES[2:3])
    assert o.Dial(ROUTER) in hints.hear(o.Hinted(GROUP, (moved,)), at(2))


def test_more_than_are_dialled_at_once_are_forgotten_oldest_first() -> None:
    hints = made(hinted_max=2)
    for number in range(5):
        key = SigningKey(bytes((1, number)) * 16).public
        hints.hear(o.Hinted(GROUP, (Hint(key, ADDRESSES[:1]),)), at(0))
    assert repr(hints) == "<2 routers that hints name are dialled>"


def test_the_service_of_a_hinted_router_is_met_as_soon_as_it_is_linked() -> None:
    one, two = Side(1, [GROUP]), Side(2, [GROUP])
    one.hear(o.Hinted(GROUP, (Hint(two.router.public, ADDRESSES[:1]),)))
    assert o.Dial(two.router.public) in one.take(o.Dial)
    one.seconds = 2.0
    one.hear(o.Linked(two.router.public, two.service.public))
    assert [each.via for each in one.take(c.Send)] == [two.router.public]
