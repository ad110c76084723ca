"""The scenario `reconcile`: the cost of comparing two sets of ids, and how soon a network that missed many messages has
all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

from services.pubsub.core.comparison.id_set import IdSet, key_of
from services.pubsub.core.comparison.negentropy import Differences, IdRange, answer, ask, go_on
from services.pubsub.simulation.figures import Axes, Goal, Result, Scenario, ScenarioRun

IDS = 100_000
NEWEST, SCATTERED = 20_000, 100
PER_MINUTE = 70
ID_BYTES = 32
MINUTE = 30_000_000
CYCLES_MAX = 60
MESSAGES, MISSED = 200, 0.1
"""Number of messages, and the share of them that each node has missed."""

_NONE, _NEWEST, _SCATTERED = "100,000 ids, none missing", "the newest 20,000 missing", "100 at random missing"
_NETWORK = "each node missed 10 % of 200"


class Talk(NamedTuple):
    """The cost of a comparison, and the ids that the asker lacks by it."""

    cost_bytes: int
    rounds: int
    need: set[bytes]


def compare(mine: IdRange, theirs: IdRange) -> Talk:
    """Let one side ask the other until it has found all differences; a round is a question and its answer."""
    found = Differences()
    cost, rounds, question = 0, 0, ask(mine)
    while question:
        reply = answer(theirs, question).frame
        cost, rounds = cost + len(question) + len(reply), rounds + 1
        question = go_on(mine, reply, found)
    return Talk(cost, rounds, set(found.need))


def run(plan: ScenarioRun) -> Iterator[Result]:
    """Compare large sets, then let a network catch up."""
    chance = Random(plan.seed)
    keys = [key_of(MINUTE + at // PER_MINUTE, chance.randbytes(ID_BYTES)) for at in range(IDS)]
    scattered = set(chance.sample(keys, SCATTERED))
    yield _compared(_NONE, keys, keys)
    yield _compared(_NEWEST, keys[:-NEWEST], keys)
    yield _compared(_SCATTERED, [key for key in keys if key not in scattered], keys)
    yield _caught_up(plan.nodes, chance)


def _compared(setting: str, mine: Sequence[bytes], theirs: Sequence[bytes]) -> Result:
    talk = compare(_view(IdSet(mine)), _view(IdSet(theirs)))
    lacked = {key[-ID_BYTES:] for key in theirs} - {key[-ID_BYTES:] for key in mine}
    measured = {"bytes": float(talk.cost_bytes), "rounds": float(talk.rounds), "missed": float(len(lacked - talk.need))}
    if lacked:
        measured["bytes_an_id"] = talk.cost_bytes / len(lacked)
    return Result(setting, None, measured)


def _view(keys: IdSet) -> IdRange:
    return IdRange(keys, MINUTE, MINUTE + IDS)


def _caught_up(nodes: int, chance: Random) -> Result:
    """Let every node compare with a random other in each cycle of 5 minutes, until all have all messages."""
    messages = {one[-ID_BYTES:]: one for one in (key_of(MINUTE, chance.randbytes(ID_BYTES)) for _ in range(MESSAGES))}
    keys = list(messages.values())
    sets = [IdSet(key for key in keys if chance.random() >= MISSED) for _ in range(nodes)]
    total = nodes * len(keys)
    curve = [(0.0, sum(map(len, sets)) / total)]
    talks = cost = 0
    while curve[-1][1] < 1 and len(curve) <= CYCLES_MAX:
        for number in chance.sample(range(nodes), nodes):
            other = sets[(number + 1 + chance.randrange(nodes - 1)) % nodes]
            talk = compare(_view(sets[number]), _view(other))
            sets[number].add(messages[one] for one in talk.need)
            talks, cost = talks + 1, cost + talk.cost_bytes
        curve.append((float(len(curve)), sum(map(len, sets)) / total))
    measured = {"hit": curve[-1][1], "cycles": curve[-1][0], "bytes": cost / max(1, talks)}
    return Result(_NETWORK, None, measured, curve)


def goals(nodes: int) -> Mapping[str, tuple[Goal, ...]]:
    """Return the bytes and rounds that comparing 100,000 ids may cost."""
    found_all = Goal("missed", most=0)
    return {
        _NONE: (Goal("bytes", most=400), found_all),
        _NEWEST: (Goal("bytes_an_id", most=1.05 * ID_BYTES), found_all),
        _SCATTERED: (Goal("bytes", most=130_000), Goal("rounds", most=4), found_all),
        _NETWORK: (Goal("hit", 1),),
    }


RECONCILE = Scenario(run, goals, Axes("cycles of 5 minutes", "messages that nodes have, of all"))
