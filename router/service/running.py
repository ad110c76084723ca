"""Run services: under a supervisor beside the node's router, or in processes of their own."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import pykka
import trio

from router.actors.actor import actor_system
from router.actors.heap import keep_giving_back
from router.actors.supervisor import Supervisor
from router.core.service.back_off import BackOff
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.errors import cause_of, line_in
from router.service.attempts import Attempts
from router.service.deed_checks import DeedChecks
from router.service.host import Place, Service
from router.service.http import FoundOverHttp, HttpSetup
from router.service.plugins import NoSettings, Plugin, load_over_http, load_reasons, load_settings
from router.service.reports import WARNING, Reports
from router.service.rules_host import RulesHost
from router.service.watchdog import Watchdog
from router.settings import keyring
from router.settings.config import Config
from router.settings.config_services import instances, key_name
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


def services_over_http(home: Home, config: Config, but: str) -> tuple[FoundOverHttp, ...]:
    """Return the services of the node that answer over HTTP, or should, without the one of the name `but`."""
    found = list[FoundOverHttp]()
    for one in instances(config.node.services):
        if one.name == but:
            continue
        address, made = key_of(home, one.name).public, None
        try:
            if (kind := load_over_http(one.module)) is not None:
                load_reasons(one.module)
                settings = load_settings(one.module, config.services.get(one.name, {}), one.name)
                made = kind
                answers = kind(HttpSetup(one.name, address, settings, random.SystemRandom()))
                found.append(FoundOverHttp(one.name, address, answers, judge=DeedChecks().judge))
        except (Exception, SystemExit) as error:  # it is somebody else's file
            found.append(FoundOverHttp(one.name, address, None, _http_fault(one.name, made, error)))
    return tuple(found)


def _http_fault(name: str, kind: type | None, error: BaseException) -> str:
    """Return the sentence about an http.py that cannot be used."""
    if kind is None:
        return f"http.py of {name} cannot be used: {cause_of(error)}"
    file = f"{kind.__module__.replace('.', '/')}.py"
    line = line_in(error, file)
    where = f"{file}{f', line {line}' if line else ''}"
    return f"http.py of {name} failed in __init__ ({where}): {cause_of(error)}; mend that file"


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
        reports.mended,
        attempts,
        events,
        leave_free_bytes(config),
        on_open=reports.opened,
        pauses=back_off(config),
        find_over_http=partial(services_over_http, home, config, name),
        node_name=config.node.name,
    )
    async with actor_system():
        supervise(service, place, back_off(config), reports.problem)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Watchdog(partial(_report_block, home)).run)
            nursery.start_soon(keep_giving_back)
            await reports.run()


def _report_block(home: Home, service: Service, text: str) -> None:
    """Report to the node from a loop of this thread, because the service's own loop stands still."""
    service.log.warning("%s: %s", service, text)
    with suppress(OSError):  # There may be no descriptor for a loop now; the watch goes on.
        trio.run(Reports(home, service.name).at_once, WARNING, text)
