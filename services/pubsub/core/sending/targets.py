"""The choice of the routers of a topic to which a message is sent (R-C33).

    from the first live neighbour on one side    to the first on the other side, and to F - 1 at random
    from anywhere else, and published here       to the first on both sides, and to F - 2 at random

Links along the ring reach every node, random links reach them soon.
"""

from __future__ import annotations

from collections.abc import Container
from enum import Enum
from typing import NamedTuple

from router.core.wire.crypto import PublicKey
from router.service.contract import Chance
from services.pubsub.core.known import Neighbour, Topic


class Toward(Enum):
    """The kind of link that a copy takes: to one side of the ring, or to any member."""

    AFTER = "after"
    BEFORE = "before"
    ANYBODY = "anybody"


class Target(NamedTuple):
    """A router that is to get a copy, and the kind of link to it."""

    to: Neighbour
    toward: Toward


def targets(topic: Topic, sender: PublicKey | None, fanout: int, chance: Chance, *, is_member: bool) -> list[Target]:
    """Return the routers to which a message is sent on its first receipt from `sender`: `fanout`, if there are enough.

    A side of the ring is left out only if its first live neighbour is the sender, and the sender is a member of the
    ring (`is_member`); clients, uplinks and LAN neighbours are not."""
    found: list[Target] = []
    for toward, side in ((Toward.AFTER, topic.after), (Toward.BEFORE, topic.before)):
        if is_member and side and side[0].router == sender:
            continue
        first = next((one for one in side if one.router != sender), None)
        if first is not None and not (found and found[0].to.router == first.router):
            found.append(Target(first, toward))
    wanted = fanout - len(found)
    if wanted > 0:
        taken = {sender, *[one.to.router for one in found]}
        found += [Target(one, Toward.ANYBODY) for one in at_random(topic, taken, wanted, chance)]
    return found


def replacement(
    topic: Topic,
    toward: Toward,
    sender: PublicKey | None,
    taken: Container[PublicKey | None],
    chance: Chance,
    *,
    is_member: bool,
) -> Neighbour | None:
    """Return the router that gets a copy in place of one that did not take it: the nearest on that side that has none,
    else any of the view; None if there is none left.

    If all members nearer than the sender are gone, the sender is the first live neighbour there: the copy goes to a
    random member, as if that had been known."""
    for one in topic.after if toward is Toward.AFTER else topic.before if toward is Toward.BEFORE else ():
        if one.router == sender and is_member:
            break
        if one.router not in taken:
            return one
    return next(iter(at_random(topic, taken, 1, chance)), None)


def at_random(topic: Topic, taken: Container[PublicKey | None], count: int, chance: Chance) -> list[Neighbour]:
    """Return `count` random neighbours that have no copy, or all there are; the random members of the view come
    first."""
    free = [one for one in topic.others if one.router not in taken]
    if len(free) >= count:
        return chance.sample(free, count)
    near = _near(topic, taken, free)
    return free + chance.sample(near, min(len(near), count - len(free)))


def in_random_order(topic: Topic, taken: Container[PublicKey | None], chance: Chance) -> list[Neighbour]:
    """Return all neighbours that have no copy; the random members of the view come first."""
    free = [one for one in topic.others if one.router not in taken]
    near = _near(topic, taken, free)
    return chance.sample(free, len(free)) + chance.sample(near, len(near))


def _near(topic: Topic, taken: Container[PublicKey | None], far: list[Neighbour]) -> list[Neighbour]:
    """Return the members on both sides that have no copy and are not among these; each once."""
    left_out = {one.router for one in far}
    found = {
        one.router: one
        for side in (topic.after, topic.before)
        for one in side
        if one.router not in taken and one.router not in left_out
    }
    return list(found.values())
