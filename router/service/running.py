"""Run services: under a supervisor beside the node's router, or in processes of their own."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pykka
import trio

from router.actors.actor import actor_system
from router.actors.supervisor import Supervisor
from router.core.service.back_off import BackOff
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.errors import cause_of
from router.service.attempts import Attempts
from router.service.host import Place, Service
from router.service.http import FoundOverHttp, HttpSetup
from router.service.plugins import NoSettings, Plugin, UnknownService, load_over_http, load_reasons, load_settings
from router.service.reports import WARNING, Reports
from router.service.rules_host import RulesHost
from router.service.watchdog import Watchdog
from router.settings import keyring
from router.settings.config import Config
from router.settings.config_services import Instance, instances, key_name
from router.settings.home import Home

DEFAULTS = Config()

log = logging.getLogger(__name__)


def key_of(home: Home, name: str) -> SigningKey:
    """Return the key under which a service of that name is kept in the home."""
    return keyring.load_or_create(home, key_name(name))


def inside_url(router: PublicKey) -> str:
    """Return the URL at which services in the node's process reach its router."""
    return f"memory://{router.hex()[:16]}"


def guests_url(home: Home) -> str:
    """Return the URL at which services in processes of their own hand streams over to the node."""
    return f"unix://{home.socket_path.with_name('guests.sock')}"


def back_off(config: Config) -> BackOff:
    """Return the pauses before a service that failed is started again."""
    return BackOff(config.node.service_restart_s_min, config.node.service_restart_s_max)


def leave_free_bytes(config: Config) -> int:
    """Return how much of the disk services leave free: twice the node's need to go on accepting messages."""
    return 2 * config.store.disk_free_bytes_min


def services_over_http(
    home: Home, config: Config, but: str, warn: Callable[[str], object]
) -> tuple[FoundOverHttp, ...]:
    """Return the services of the node that answer over HTTP, without the one of the name `but`. `warn` is told of those
    that cannot, which are left out."""
    found, faults = list[FoundOverHttp](), list[str]()
    for one in instances(config.node.services):
        if one.name == but:
            continue
        try:
            answers = _over_http(home, config, one)
        except Exception as error:  # it is somebody else's file: what is wrong with it ends nothing else
            faults.append(f'the service "{one.name}" has no answers over HTTP: {cause_of(error)}')
        else:
            found += [] if answers is None else [answers]
    if faults:
        log.warning("%s", said := "; ".join([*faults, "mend that, and start the node again"]))
        warn(said)
    return tuple(found)


def _over_http(home: Home, config: Config, one: Instance) -> FoundOverHttp | None:
    """Return what answers over HTTP in a service's name; None if nothing does. Raises `UnknownService`."""
    kind = load_over_http(one.module)
    if kind is None:
        return None
    load_reasons(one.module)
    settings = load_settings(one.module, config.services.get(one.name, {}), one.name)
    address = key_of(home, one.name).public
    answers = kind(HttpSetup(one.name, address, settings, random.SystemRandom()))
    if guarded := [operation.id for operation in answers.operations() if operation.needs_token]:
        said = f"its operation {guarded[0]} needs a token, but nothing judges tokens for services"
        raise UnknownService(f"{said}; judge the request in hear_request, by its headers")
    return FoundOverHttp(one.name, address, answers)


def begin(found: type[Service] | Plugin, place: Place) -> pykka.ActorRef[Any]:
    """Start the service once."""
    if isinstance(found, Plugin):
        if found.rules is not None:
            return RulesHost.start(place, found.rules)
        assert found.kind is not None
        found = found.kind
    return found.start(place)


def supervise(
    found: type[Service] | Plugin,
    place: Place,
    pauses: BackOff,
    on_problem: Callable[[str], bool | None] | None = None,
) -> pykka.ActorRef[Supervisor]:
    """Run the service under a supervisor, inside an actor system; `on_problem` as there."""
    return Supervisor.start(
        lambda: begin(found, place),
        random.random,
        pauses,
        lambda: place.attempts.ended,
        on_problem,
        f"the service {place.name}",
    )


async def run(
    service: type[Service] | Plugin,
    name: str,
    home: Home,
    options: Mapping[str, Any] | None = None,
    config: Config = DEFAULTS,
) -> None:
    """Run the service in this process, signed on to the node of `home`, until cancelled. `config`: the node's."""
    reports = Reports(home, name)
    settings = service.settings_of(options or {}) if isinstance(service, Plugin) else NoSettings()
    url, attempts = f"unix://{home.socket_path}", Attempts(config.node.service_attempts_max)
    events = frozenset(service.events) if isinstance(service, Plugin) else frozenset[str]()
    place = Place(
        name,
        url,
        key_of(home, name),
        home,
        settings,
        options or {},
        guests_url(home),
        reports.warning,
        attempts,
        events,
        leave_free_bytes(config),
        pauses=back_off(config),
        find_over_http=partial(services_over_http, home, config, name, reports.warning),
    )
    async with actor_system():
        supervise(service, place, back_off(config), reports.problem)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Watchdog(partial(_report_block, home)).run)
            await reports.run()


def _report_block(home: Home, service: Service, text: str) -> None:
    """Report to the node from a loop of this thread, because the service's own loop stands still."""
    service.log.warning("%s: %s", service, text)
    trio.run(Reports(home, service.name).at_once, WARNING, text)
