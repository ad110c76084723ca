"""Runs services: under a supervisor beside the node's router, or in a process of their own."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import pykka

from router.actors.actor import actor_system
from router.actors.supervisor import BackOff, Supervisor
from router.core.wire.crypto import PublicKey, SigningKey
from router.service.attempts import Attempts
from router.service.host import Place, Service
from router.service.plugins import NoSettings, Plugin
from router.service.reports import Reports
from router.service.rules_host import RulesHost
from router.settings import keyring
from router.settings.config import Config
from router.settings.config_services import key_name
from router.settings.home import Home

DEFAULTS = Config().node
ATTEMPTS_MAX = DEFAULTS.service_attempts_max


def key_of(home: Home, name: str) -> SigningKey:
    """The key under which a service of that name is kept in the home."""
    return keyring.load_or_create(home, key_name(name))


def inside_url(router: PublicKey) -> str:
    """Where services in the node's process reach its router."""
    return f"memory://{router.hex()[:16]}"


def guests_url(home: Home) -> str:
    """Where services in processes of their own hand streams over to the node."""
    return f"unix://{home.socket_path.with_name('guests.sock')}"


def begin(found: type[Service] | Plugin, place: Place) -> pykka.ActorRef[Any]:
    """Start the service once."""
    if isinstance(found, Plugin):
        if found.rules is not None:
            return RulesHost.start(place, found.rules)
        assert found.kind is not None
        found = found.kind
    return found.start(place)


def supervise(
    found: type[Service] | Plugin, place: Place, back_off: BackOff, on_problem: Callable[[str], None] | None = None
) -> pykka.ActorRef[Supervisor]:
    """Run the service under a supervisor, inside an actor system; `on_problem` hears why it failed."""
    return Supervisor.start(
        lambda: begin(found, place), random.random, back_off, lambda: place.attempts.ended, on_problem,
        f"the service {place.name}",
    )  # fmt: skip


async def run(
    service: type[Service] | Plugin, name: str, home: Home, options: Mapping[str, Any] | None = None,
    attempts_max: int = ATTEMPTS_MAX,
) -> None:  # fmt: skip
    """Run the service in this process, signed on to the node of `home`, until cancelled."""
    reports = Reports(home, name)
    settings = service.settings_of(options or {}) if isinstance(service, Plugin) else NoSettings()
    url, attempts = f"unix://{home.socket_path}", Attempts(attempts_max)
    events = frozenset(service.events) if isinstance(service, Plugin) else frozenset[str]()
    place = Place(
        name, url, key_of(home, name), home, settings, options or {}, guests_url(home), reports.warning, attempts,
        events,
    )  # fmt: skip
    async with actor_system():
        back_off = BackOff(DEFAULTS.service_restart_s_min, DEFAULTS.service_restart_s_max)
        supervise(service, place, back_off, reports.problem)
        await reports.run()
