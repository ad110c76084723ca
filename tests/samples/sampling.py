"""Advertisements, entries and a node's sampling, for the tests of discovery."""

from __future__ import annotations

from random import Random

from router.service.contract import Now
from services.discovery.core.sampling import Sampling, SamplingLimits
from services.discovery.core.view import ViewEntry
from services.discovery.simulation.network import LIFE_S, WALL_S, SimulatedAdvert, advert_of

OWN = advert_of(0)


def entry(number: int, age: int = 1, rev: int = 1, prefix: bytes | None = None, lasts_s: int = LIFE_S) -> ViewEntry:
    return ViewEntry(age, SimulatedAdvert(advert_of(number).key, rev, WALL_S + lasts_s, prefix))


def at(mono_s: float) -> Now:
    return Now(WALL_S + mono_s, mono_s)


def node(*seeds: int, limits: SamplingLimits | None = None) -> Sampling:
    """Return the sampling of node 0, which knows these seeds."""
    keys = [advert_of(number).key for number in seeds]
    return Sampling(OWN, keys, b"secret", Random(7), limits or SamplingLimits())
