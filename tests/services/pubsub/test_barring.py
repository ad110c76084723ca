"""A core bars a router that takes messages and passes none on: its place, the log, and what operators see."""

from __future__ import annotations

from rigs.pubsub_sides import NOW, Side, Sides

from router.core.wire.crypto import MessageId, PublicKey, SigningKey
from router.service import contract as c
from services.pubsub.commands import judged_text
from services.pubsub.core.comparison.id_set import key_of
from services.pubsub.events import EVENTS
from services.pubsub.reasons import WITHHOLDS

GROUP = SigningKey(bytes((31,)) * 32).public
HOUR_S = 3_600


def met(count: int) -> tuple[Sides, list[Side]]:
    """Return nodes that want one group and have met the first."""
    nodes = [Side(number, [GROUP]) for number in range(1, count + 1)]
    sides = Sides(*nodes)
    for one in nodes[1:]:
        sides.link(nodes[0], one)
    sides.pass_time(20.0)
    assert len(nodes[0].neighbours(GROUP)) == count - 1
    return sides, nodes


def lose(side: Side, router: PublicKey) -> list[c.Deed]:
    """Let a node find in four comparisons that a router holds nothing of what it took; return its deeds."""
    withholding, at_s = side.rules.known.withholding, NOW.mono_s + side.seconds
    for number in range(4):
        id, other = (MessageId(bytes((number, at)) * 16) for at in (0, 1))
        withholding.sent(router, GROUP, key_of(0, id), at_s - 200)
        withholding.taken(router, id, at_s - 200)
        withholding.arrived(GROUP, key_of(0, other), at_s - 10)
        watched = withholding.watched(router, GROUP, at_s)
        withholding.compared(router, GROUP, watched, (), at_s)
        at_s += 60
    return side.hear(c.Tick())


def shown(side: Side) -> list[dict[str, object]]:
    [answer] = [one for one in side.hear(c.Asked(1, "peers")) if isinstance(one, c.Answer)]
    side.done.clear()
    assert isinstance(answer.value, dict) and not answer.value["more"]
    rows: list[dict[str, object]] = answer.value["peers"]
    return rows


def test_a_router_that_is_barred_has_no_place_and_is_named() -> None:
    _, (judge, dropper, other) = met(3)
    assert {row["barred_s"] for row in shown(judge)} == {0}
    deeds = lose(judge, dropper.router.public)
    [event] = [one for one in deeds if isinstance(one, c.LogEvent)]
    assert event.event in EVENTS and event.reason is WITHHOLDS and len(event.messages) == 4
    assert event.fields == {"router": dropper.router.public.hex(), "lost": 4, "withheld": 0, "for_s": HOUR_S}
    assert judge.neighbours(GROUP) == {other.router.public}
    first, second = shown(judge)
    assert first["router"] == dropper.router.public.hex() and first["neighbour"] == 0 and second["neighbour"] == 1
    assert judged_text(first).startswith("nothing: barred for ") and "nothing is known" in judged_text(second)


def test_a_bar_ends_after_its_time_and_at_once_if_the_router_brings_something() -> None:
    sides, (judge, dropper, other) = met(3)
    both = {dropper.router.public, other.router.public}
    lose(judge, dropper.router.public)
    sides.pass_time(HOUR_S + 300)
    assert judge.neighbours(GROUP) == both
    lose(judge, dropper.router.public)
    assert judge.neighbours(GROUP) == {other.router.public}
    judge.rules.known.withholding.brought(dropper.router.public)
    judge.hear(c.Tick())
    assert judge.neighbours(GROUP) == both


def test_a_core_behind_a_dropper_only_names_it_and_keeps_it() -> None:
    _, (judge, dropper) = met(2)
    assert any(isinstance(one, c.LogEvent) for one in lose(judge, dropper.router.public))
    assert judge.neighbours(GROUP) == {dropper.router.public}
    [row] = shown(judge)
    assert judged_text(row).endswith("more, but kept in 1 group without another")
