"""The scenario `rendezvous`: groups of two routers, without a hint, find each other among many, some of which lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isqrt
from random import Random
from statistics import fmean

from router.core.wire.crypto import KEY_BYTES, PublicKey
from services.pubsub.simulation.figures import Axes, Goal, Result, Scenario, ScenarioRun
from services.pubsub.simulation.rendezvous_network import Lie, RendezvousNetwork, Seeking

PAIRS = 200
PAIRS_ATTACKED = 10
GROUND = 50
LIARS = 0.2
GONE = 0.1
LATER_S, APART_S, LAST_S = 120.0, 1.0, 120.0
"""When the second routers begin; how far apart those of a pair begin that begin together; how long is looked on."""
WITHIN_S = 60.0
NEVER_S = WITHIN_S + LAST_S
"""What a pair counts that did not meet while it was looked on."""
LEFT_AGAIN = 1
"""How often a day a record is left again at the same routers, without a search."""
CONNECTION_BYTES = 3_800
"""Bytes of a new connection both ways: of TLS 1.3 with both certificates, as counted; TCP's and the hellos are more."""

_HONEST, _LIARS = "nobody lies", "20 % lie, then 10 % go"
_RANDOM = "the same, at 2·√N random routers"
_ONE_NETWORK = "50 keys ground for the point, in one network"
_MANY_NETWORKS = "50 keys ground for the point, in 50 networks"


def run(plan: ScenarioRun) -> Iterator[Result]:
    """Let pairs find each other: half of them hours apart, half at once."""
    pairs = min(PAIRS, plan.nodes // 10)
    yield _measured(_HONEST, RendezvousNetwork(plan.seed, plan.nodes), pairs)
    yield _measured(_LIARS, RendezvousNetwork(plan.seed, plan.nodes, liars=LIARS), pairs, gone=GONE)
    chosen = 2 * isqrt(plan.nodes)
    random = RendezvousNetwork(plan.seed, plan.nodes, liars=LIARS, chosen=chosen)
    yield _measured(_RANDOM, random, min(pairs, PAIRS // 4), gone=GONE)
    for setting, networks in ((_ONE_NETWORK, 1), (_MANY_NETWORKS, GROUND)):
        attacked = RendezvousNetwork(plan.seed, plan.nodes)
        yield _measured(setting, attacked, min(pairs, PAIRS_ATTACKED), networks=networks)


def _measured(setting: str, network: RendezvousNetwork, pairs: int, *, gone: float = 0, networks: int = 0) -> Result:
    chance = Random(network.engine.chance.random())
    honest = [number for number, one in enumerate(network.nodes) if one.lie is Lie.NONE]
    members = chance.sample(honest, 2 * pairs)
    groups = [PublicKey(chance.randbytes(KEY_BYTES)) for _ in range(pairs)]
    if networks:
        for group in groups:
            network.grind(group, GROUND, networks)
    firsts, seconds = list[Seeking](), list[Seeking]()
    for at, group in enumerate(groups):
        begun_s = LATER_S + chance.random() * WITHIN_S
        before_s = chance.random() * WITHIN_S if at % 2 else begun_s - chance.random() * APART_S
        firsts.append(network.seek(members[2 * at], group, before_s))
        seconds.append(network.seek(members[2 * at + 1], group, begun_s))
    network.run(LATER_S)
    network.kill(gone, frozenset(members))
    network.run(LATER_S + WITHIN_S + LAST_S)
    return Result(setting, None, _figures(network, firsts, seconds), _curve(seconds))


def _figures(network: RendezvousNetwork, firsts: list[Seeking], seconds: list[Seeking]) -> dict[str, float]:
    took = _took(seconds)
    everybody = firsts + seconds
    searches = [one.search.asks for one in everybody if one.search is not None]
    said = fmean(one.said + LEFT_AGAIN * one.left for one in everybody) / 24
    storers = fmean(len(one.search.storers) for one in everybody if one.search is not None)
    dials = fmean(one.dials for one in everybody) + LEFT_AGAIN * storers
    return {
        "found_in_time": sum(one <= WITHIN_S for one in took) / len(seconds),
        "found_p50_s": took[len(took) // 2],
        "found_p99_s": took[-1 - len(took) // 100],
        "asks": fmean(searches),
        "hour_bytes": said,
        "hour_bytes_connected": said + dials * CONNECTION_BYTES / 24,
        "unopened": float(sum(network.unopened.values())),
    }


def _took(seconds: list[Seeking]) -> list[float]:
    """Return the seconds that pairs took to meet, from the second one's beginning on; `NEVER_S` if they did not."""
    return sorted(one.found_s - one.begun_s if one.found_s is not None else NEVER_S for one in seconds)


def _curve(seconds: list[Seeking]) -> list[tuple[float, float]]:
    took = [one for one in _took(seconds) if one < NEVER_S]
    return [(0.0, 0.0), *((max(0.001, one), (at + 1) / len(seconds)) for at, one in enumerate(took))]


def goals(nodes: int) -> Mapping[str, tuple[Goal, ...]]:
    found, cost = Goal("found_in_time", 1.0), Goal("hour_bytes", most=1_000)
    return {_HONEST: (found, cost), _LIARS: (found, cost), _ONE_NETWORK: (found,)}


RENDEZVOUS = Scenario(
    run,
    goals,
    Axes("seconds since the second of two began to look", "pairs that met", is_log=True, is_stepped=True),
)
