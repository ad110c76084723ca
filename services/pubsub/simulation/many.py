"""The scenario `many`: two services that want very many groups find those that both want."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

from router.core.service.meetings import GoOn
from router.core.wire.crypto import KEY_BYTES, PublicKey
from router.core.wire.meeting import NONCE_BYTES, Meeting
from services.pubsub.core.meetings.agreeing import Agreed, Agreeing, Deed, SayGroups
from services.pubsub.core.messages import AskGroups, TellGroups, decode_message, encode_message
from services.pubsub.simulation.figures import Axes, Goal, Result, Scenario, ScenarioRun

GROUPS_OF_A_NODE = 10
"""Number of groups that each side wants, for each node of the run: 10,000 of 1,000."""
ONE, OTHER = PublicKey(b"\x01" * KEY_BYTES), PublicKey(b"\x02" * KEY_BYTES)

_HALF, _ALL, _FEW, _NONE = "half of all in common", "all in common", "all but ten in common", "none in common"


class Side(NamedTuple):
    """One service: its router, its agreements, and the groups that it wants."""

    router: PublicKey
    agreeing: Agreeing
    wanted: frozenset[bytes]


def run(plan: ScenarioRun) -> Iterator[Result]:
    """Let two services agree on sets that overlap more or less."""
    chance = Random(plan.seed)
    count = GROUPS_OF_A_NODE * plan.nodes
    keys = [chance.randbytes(KEY_BYTES) for _ in range(2 * count)]
    for setting, mine, theirs in (
        (_HALF, keys[:count], keys[count // 2 : count // 2 + count]),
        (_ALL, keys[:count], keys[:count]),
        (_FEW, keys[:count], keys[10:count]),
        (_NONE, keys[:count], keys[count:]),
    ):
        yield _agreed(setting, mine, theirs, chance)


def _agreed(setting: str, mine: Sequence[bytes], theirs: Sequence[bytes], chance: Random) -> Result:
    """Agree, and count what is sent. A side that never hears the end has found nothing."""
    first, second = chance.randbytes(NONCE_BYTES), chance.randbytes(NONCE_BYTES)
    sides = _side(ONE, mine, chance), _side(OTHER, theirs, chance)
    found: dict[PublicKey, frozenset[bytes]] = {}
    said = list[SayGroups]()
    for here, there, asks in ((sides[1], sides[0], False), (sides[0], sides[1], True)):
        told = GoOn(there.router, there.router, Meeting(here.router, there.router, first, second), asks)
        said = _taken(here, here.agreeing.begin(told, 0.0), found)
    cost = frames = 0
    curve = [(0.0, 0.0)]
    here, there = sides
    while said:
        body = encode_message(said[0].word)
        cost, frames = cost + len(body), frames + 1
        curve.append((float(frames), float(cost)))
        said = _taken(there, _heard(there, here.router, body), found)
        here, there = there, here
    common = sides[0].wanted & sides[1].wanted
    missed = sum(len(common ^ found.get(one.router, frozenset())) for one in sides)
    measured = {"bytes": float(cost), "rounds": frames / 2, "missed": float(missed), "bytes_an_id": cost / len(mine)}
    return Result(setting, None, measured, curve)


def _side(router: PublicKey, wanted: Sequence[bytes], chance: Random) -> Side:
    groups = frozenset(wanted)
    return Side(router, Agreeing(lambda: groups, chance.randbytes), groups)


def _heard(side: Side, by: PublicKey, body: bytes) -> list[Deed]:
    word = decode_message(body)
    if isinstance(word, AskGroups):
        return side.agreeing.hear_question(by, word, 0.0)
    assert isinstance(word, TellGroups)
    return side.agreeing.hear_answer(by, word, 0.0)


def _taken(side: Side, deeds: Sequence[Deed], found: dict[PublicKey, frozenset[bytes]]) -> list[SayGroups]:
    for one in deeds:
        if isinstance(one, Agreed):
            found[side.router] = one.groups
    return [one for one in deeds if isinstance(one, SayGroups)]


def goals(nodes: int) -> Mapping[str, tuple[Goal, ...]]:
    exact, rounds = Goal("missed", most=0), Goal("rounds", most=8)
    return {
        _HALF: (exact, rounds, Goal("bytes_an_id", most=40)),
        _ALL: (exact, rounds, Goal("bytes", most=50_000)),
        _FEW: (exact, rounds, Goal("bytes", most=50_000)),
        _NONE: (exact, rounds, Goal("bytes_an_id", most=40)),
    }


MANY = Scenario(run, goals, Axes("words", "bytes", is_share=False))
