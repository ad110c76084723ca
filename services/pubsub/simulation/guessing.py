"""The scenario `privacy`: how well a guess from a filter tells whether its owner wants a known topic (R-C36)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from random import Random

from router.core.wire.crypto import KEY_BYTES, PublicKey
from services.pubsub.core.meetings.filters import BITS_OF_A_GROUP, SECRET_BYTES, agreement, tell
from services.pubsub.simulation.figures import Axes, Goal, Result, Scenario, ScenarioRun

TOPICS = (5, 10, 20, 40, 80)
SETTING_TOPICS = 20
TOPICS_IN_ALL = 400
FILTERS_A_NODE = 4
"""Number of secrets with which each node is examined, so that chance does not decide by a hundredth."""
WANTED, UNWANTED = 20, 40
"""Topics that are guessed for each filter: wanted by its owner, and not wanted."""


def run(plan: ScenarioRun) -> Iterator[Result]:
    """Yield the quality of the best guess, for different numbers of topics a node."""
    chance = Random(plan.seed)
    groups = [PublicKey(chance.randbytes(KEY_BYTES)) for _ in range(TOPICS_IN_ALL)]
    found = {topics: guessed(plan.nodes, topics, groups, chance) for topics in TOPICS}
    curve = [(float(topics), one["advantage"]) for topics, one in found.items()]
    for topics, measured in found.items():
        shown = curve if topics == SETTING_TOPICS else ()
        yield Result(_setting(topics), None, measured, shown, "one topic's key is known")


def guessed(nodes: int, topics: int, groups: list[PublicKey], chance: Random) -> dict[str, float]:
    """Return the shares of right guesses of wanted topics and of wrong guesses of the others, and their difference.

    The guess depends on how many of the topic's bits the filter has: the best rule says yes at the counts that are more
    frequent among the wanted topics, so its advantage is the distance of the two distributions.
    """
    wanted, unwanted = Counter[int](), Counter[int]()
    for _ in range(nodes * FILTERS_A_NODE):
        drawn = chance.sample(groups, topics + UNWANTED)
        told = tell(drawn[:topics], chance.randbytes(SECRET_BYTES))
        wanted.update(agreement(told, group) for group in drawn[: min(topics, WANTED)])
        unwanted.update(agreement(told, group) for group in drawn[topics:])
    shares = [
        (wanted[count] / wanted.total(), unwanted[count] / unwanted.total()) for count in range(BITS_OF_A_GROUP + 1)
    ]
    right, wrong = (sum(one[at] for one in shares if one[0] > one[1]) for at in (0, 1))
    return {"advantage": right - wrong, "found": right, "mistaken": wrong}


def _setting(topics: int) -> str:
    return f"{topics} topics a node"


def goals(nodes: int) -> Mapping[str, tuple[Goal, ...]]:
    """Return the goal, which is of 20 topics."""
    return {_setting(SETTING_TOPICS): (Goal("advantage", most=0.50),)}


PRIVACY = Scenario(run, goals, Axes("topics a node", "advantage of the best guess", is_share=False))
