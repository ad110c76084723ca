"""The services of a node: found, given keys, started where each is to run, and listed in `router status`."""

from __future__ import annotations

import logging
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import trio
from msgspec import Struct, field

from router.actors.process import program
from router.core.neighbours.directory import ServiceFacts
from router.core.wire.crypto import SigningKey
from router.core.wire.errors import CAUSE_CHARS_MAX
from router.core.wire.text import SUBJECT, printable
from router.node.last_lines import LastLines
from router.service.attempts import Attempts
from router.service.host import Place, Service
from router.service.plugins import NotStarted, Plugin, UnknownService, doubled_roles, load
from router.service.reports import ENDED, MENDED, OPENED, PROBLEM, WARNING
from router.service.running import back_off, key_of, leave_free_bytes, services_over_http, supervise
from router.service.watchdog import Watchdog
from router.settings.config import Config
from router.settings.config_services import APART, DEFAULT, INSIDE, Instance, instances
from router.settings.home import Home

CALM_S = 60.0
OPEN_S = 30.0
"""How long a node that starts waits for its services' doors before it says that it is ready."""
STOPPED = "this node has stopped, as its home was copied; `router copy` says how to keep it"

log = logging.getLogger(__name__)


class Remark(NamedTuple):
    """A sentence about a service, its time (monotonic seconds), and the last lines that its process printed."""

    text: str
    at_s: float
    last_lines: tuple[str, ...] = ()


def as_remark(text: str) -> str:
    """Return a text of a service as `router status` shows it: as long as it may be, and nothing that a terminal would
    obey."""
    return printable(text)[:CAUSE_CHARS_MAX]


class Resident(Struct):
    """One instance of a service: why it failed last, how often it was started, and its last warning."""

    instance: Instance
    plugin: Plugin
    key: SigningKey
    problem: Remark | None = None
    starts: int = 0
    warning: Remark | None = None
    has_said_end: bool = False
    """Whether its present process has said why it ends."""
    opened: trio.Event = field(default_factory=trio.Event)
    """Whether it has opened its doors, or failed."""

    @property
    def run(self) -> str:
        """Return where it runs: where the configuration says, else where the service itself does."""
        return self.plugin.run if self.instance.run == DEFAULT else self.instance.run

    def has_warning(self, text: str) -> None:
        self.warning = Remark(as_remark(text), time.monotonic())

    def has_mended(self, text: str) -> None:
        """Show a warning no longer, if it is the last one."""
        if self.warning is not None and self.warning.text == as_remark(text):
            self.warning = None

    def has_problem(self, text: str, last_lines: tuple[str, ...] = ()) -> None:
        self.opened.set()
        self.problem = Remark(as_remark(text), time.monotonic(), last_lines)

    def remark(self, is_running: bool) -> Remark | None:
        """Return why it is away, or its last problem while it runs."""
        if not is_running:
            return self.problem or self.warning
        if self.problem is None or (self.warning is not None and self.warning.at_s > self.problem.at_s):
            return self.warning
        return self.problem._replace(text=f"it failed and was started again: {self.problem.text}")


class Residents:
    """All services that the configuration names. Raises `UnknownService` for one that cannot be loaded. `needed`: the
    name of the service without which the node is not to run, "" if there is none."""

    def __init__(self, home: Home, config: Config, needed: str = "") -> None:
        self._needed = needed
        self._home = home
        self._config = config
        self._all = {
            one.name: Resident(one, load(one.module), key_of(home, one.name)) for one in instances(config.node.services)
        }
        _check_roles(self._all)

    def __repr__(self) -> str:
        return f"<residents: {', '.join(self._all) or 'none'}>"

    def __bool__(self) -> bool:
        return bool(self._all)

    @property
    def keys(self) -> frozenset[bytes]:
        return frozenset(bytes(one.key.public) for one in self._all.values())

    @property
    def public(self) -> frozenset[bytes]:
        """Return the keys of the services that strangers may send to."""
        return frozenset(bytes(self._all[name].key.public) for name in self._config.node.services_public)

    @property
    def directory(self) -> dict[bytes, ServiceFacts]:
        """Return the services by key: the name and role of each, and the events that it may write to the log."""
        return {
            bytes(one.key.public): ServiceFacts(name, frozenset(one.plugin.events), one.plugin.role)
            for name, one in self._all.items()
        }

    def at_start(self) -> dict[str, dict[str, str]]:
        """Return what each service says of itself when the node is ready; only why it is away if it failed to start."""
        found = {
            name: {"away": one.problem.text}
            if one.problem is not None
            else one.plugin.at_start(self._config.services.get(name, {}), self._home.path)
            for name, one in self._all.items()
        }
        return {name: facts for name, facts in found.items() if facts}

    def facts(self, connected: frozenset[bytes]) -> list[dict[str, Any]]:
        """Return one row for each service, as in `router status`. `connected`: the keys of all open links."""
        return [self._row(one, one.key.public in connected) for one in self._all.values()]

    @staticmethod
    def _row(one: Resident, is_running: bool) -> dict[str, Any]:
        remark = one.remark(is_running)
        return {
            "name": one.instance.name,
            "module": one.instance.module,
            "role": one.plugin.role,
            "run": one.run,
            "starts": one.starts,
            "address": one.key.public.hex(),
            "state": "running" if is_running else "away",
            "problem": remark.text if remark else "",
            "last_lines": remark.last_lines if remark else (),
            "problem_age_s": round(time.monotonic() - remark.at_s, 1) if remark else None,
        }

    def hear_report(self, name: str, kind: str, text: str) -> bool:
        """Handle a report of a service in a process of its own; return whether there is such a service."""
        one = self._all.get(name)
        if one is None or kind not in (PROBLEM, WARNING, MENDED, ENDED, OPENED):
            return False
        if kind == OPENED:
            one.opened.set()
            return True
        if kind == MENDED:
            one.has_mended(text)
            return True
        log.warning("the service %s: %s", name, as_remark(text), extra={SUBJECT: name})
        if kind == WARNING:
            one.has_warning(text)
        else:
            one.has_problem(text)
        one.has_said_end |= kind == ENDED
        return True

    # -- starting ------------------------------------------------------------------------------------------

    def start(self, nursery: trio.Nursery, url: str, guests: str) -> None:
        """Start the services that run inside, which reach the router over these URLs, and those that run apart."""
        if any(one.run == INSIDE for one in self._all.values()):
            nursery.start_soon(Watchdog(Service.warn).run)
        for one in self._all.values():
            if one.run == INSIDE:
                self._start_inside(one, url, guests)
            elif one.run == APART:
                nursery.start_soon(self._run_apart, one)

    def rest(self) -> None:
        """Record that none of them is started, since this node has stopped as a copy."""
        for one in self._all.values():
            one.has_problem(STOPPED)

    async def until_open(self) -> None:
        """Wait until services that have rules have opened their doors, or have failed to: those inside, and those apart
        of which `at_start` says where their doors are. Raise `NotStarted` if the one that is needed has failed to."""
        shown = self.at_start()
        with trio.move_on_after(OPEN_S):
            for name, one in self._all.items():
                if one.plugin.rules is not None and (one.run == INSIDE or (one.run == APART and name in shown)):
                    await one.opened.wait()
        needed = self._all.get(self._needed)
        if needed is not None and needed.problem is not None:
            raise NotStarted(f"the service {self._needed} cannot start: {needed.problem.text}")

    def _has_problem(self, one: Resident, text: str) -> bool:
        """Note the problem; return whether the service is given up, because the node is not to run without it."""
        is_given_up = one.instance.name == self._needed and not one.opened.is_set()
        one.has_problem(text)
        return is_given_up

    def _start_inside(self, one: Resident, url: str, guests: str) -> None:
        options, most = self._config.services.get(one.instance.name, {}), self._config.node.service_attempts_max
        settings = one.plugin.settings_of(options)
        place = Place(
            one.instance.name,
            url,
            one.key,
            self._home,
            settings,
            options,
            guests,
            one.has_warning,
            one.has_mended,
            Attempts(most),
            frozenset(one.plugin.events),
            leave_free_bytes(self._config),
            is_inside=True,
            on_open=one.opened.set,
            pauses=back_off(self._config),
            find_over_http=partial(services_over_http, self._home, self._config, one.instance.name),
            node_name=self._config.node.name,
        )
        one.starts += 1
        supervise(one.plugin, place, back_off(self._config), partial(self._has_problem, one))

    async def _run_apart(self, one: Resident) -> None:
        """Keep a service's process running; its standard input is our pipe, so it ends with this node."""
        command = program("router.service.apart", str(self._home.path), one.instance.name)
        failures = 0
        while True:
            one.starts += 1
            one.has_said_end = False
            began_s = trio.current_time()
            printed = LastLines()
            process = await trio.lowlevel.open_process(
                command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=child_environment()
            )
            try:
                code = await printed.until_end(process)
            finally:
                await end_process(process)
            failures = 1 if trio.current_time() - began_s >= CALM_S else failures + 1
            pause_s = back_off(self._config).pause_s(failures, random.random())
            if not one.has_said_end:
                lines = printed.lines()
                said = "the last that it printed may say why" if lines else "it printed nothing"
                one.has_problem(f"its process ended with {_exit_text(code)}; {said}", lines)
            assert one.problem is not None
            text, name = "the service %s: %s; starting it again in %.1f s", one.instance.name
            log.warning(text, name, one.problem.text, pause_s, extra={SUBJECT: name})
            await trio.sleep(pause_s)


def _check_roles(residents: Mapping[str, Resident]) -> None:
    """Raise `UnknownService` if two services have the same role."""
    for _, said in doubled_roles((name, one.plugin.role) for name, one in residents.items()):
        raise UnknownService(said)


def _exit_text(code: int) -> str:
    try:
        return f"exit code {code}" + (f" ({signal.Signals(-code).name})" if code < 0 else "")
    except ValueError:
        return f"exit code {code}"


def child_environment() -> dict[str, str]:
    """Return the environment of a process that this node starts: our own, with this process's module path."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(one for one in sys.path if one)}


async def end_process(process: trio.Process) -> None:
    """Close the process's standard input, and end it if it still runs: it has 2 s to end by itself."""
    assert process.stdin is not None
    with trio.CancelScope(shield=True):
        await process.stdin.aclose()
    if process.returncode is None:
        process.terminate()
        with trio.move_on_after(2, shield=True):
            await process.wait()
    if process.returncode is None:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
