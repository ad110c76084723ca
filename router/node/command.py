"""`router serve`: run the node until a signal, and print when it is ready."""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Mapping
from functools import partial

import click
import trio

from router.actors.process import stop_signals
from router.cli import loop
from router.cli.command import ARGUMENTS, Command, invocation, json_option
from router.cli.config import overrides
from router.cli.exits import Exit, Failure
from router.cli.output import NAME_MAX, facts, say_json, size_text
from router.cli.preflight import rules, verb_warnings
from router.core.wire.text import clean, counted, key_text
from router.node.descriptors import TooFewDescriptors, raise_limit
from router.node.node import Ready, RunningNode
from router.node.start_files import StartFiles
from router.settings import config as configuration
from router.settings import last_start
from router.settings.config import Config
from router.settings.home import Home
from router.settings.last_start import Start
from router.transport import contract as transport

log = logging.getLogger(__name__)

LAN = "services.discovery", "lan", "here"
"""The service that finds other nodes on local networks, and its setting that allows the node's present networks."""


@click.command(cls=Command)
@click.option(
    "--listen",
    multiple=True,
    metavar="URL",
    help="The URL to listen on, instead of those in the configuration: tls://HOST:PORT, unix://PATH, "
    "ws://127.0.0.1:PORT or wss://:PORT?certificate=FILE&key=FILE. Repeatable.",
)
@click.option(
    "--verifiers",
    type=int,
    metavar="N",
    help="The most processes that check signatures; 0: the router itself, -1: one per core.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Override a setting, for example store.durability=unsynced. Repeatable.",
)
@click.option("--lan", is_flag=True, help="Allow the local networks that this machine is in: as `router lan on`.")
@json_option
def serve(
    listen: tuple[str, ...],
    verifiers: int | None,
    settings: tuple[str, ...],
    lan: bool,
    as_json: bool,
    needed: str = "",
    start: Start | None = None,
) -> None:
    """Run the node in the foreground.

    Prints address, listeners, durability and queue when it is ready. SIGTERM, SIGHUP or Ctrl-C drains and stops it;
    messages in custody are on disk and are delivered after the next start.
    """
    try:
        raise_limit()
    except TooFewDescriptors as error:
        raise Failure(Exit.FAILED, str(error)) from None
    for url in listen:
        transport.check_listening(url)
    flags = overrides(settings)
    if listen:
        flags["node.listen"] = listen
    if verifiers is not None:
        flags["verify.verifiers"] = verifiers

    home = invocation().chosen_home

    load = StartFiles(home, partial(_load, home, flags, lan))
    is_new, config = not home.holds_settings, load()
    for said in verb_warnings(config):  # a fault on the command line makes no home
        log.warning("%s", said)
    node = RunningNode(invocation().home_to_write, load() if is_new else config, load, needed)
    try:
        loop.run(_serve, node, home, as_json, start or _start())
    except* KeyboardInterrupt:
        log.info("interrupted before it was ready")  # Ctrl-C ends it, also before the signal receiver runs


def _load(home: Home, flags: Mapping[str, object], lan: bool) -> Config:
    config = configuration.load(home.config_path, flags, rules(home))[0]
    return configuration.with_service(config, *LAN) if lan else config


def _start() -> Start:
    return Start(click.get_current_context().find_root().meta.get(ARGUMENTS, ()))


async def _serve(node: RunningNode, home: Home, as_json: bool, start: Start) -> None:
    def on_ready(ready: Ready) -> None:
        if start.arguments:
            last_start.keep(home.path, start)
        _print_ready(ready, home, as_json)
        tell_service_manager("READY=1")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_stop_on_signal, node, nursery.cancel_scope)
        nursery.start_soon(_answer_watchdog)
        await node.run(on_ready)
        nursery.cancel_scope.cancel()


async def _stop_on_signal(node: RunningNode, at_once: trio.CancelScope) -> None:
    """Drain and stop the node at the first signal; cancel the draining at the second."""
    with trio.open_signal_receiver(*stop_signals()) as signals:
        async for number in signals:
            if at_once.cancel_called:
                continue
            log.info("%s: draining", signal.Signals(number).name)
            tell_service_manager("STOPPING=1")
            node.stop()
            break
        async for _ in signals:
            at_once.cancel()


async def _answer_watchdog() -> None:
    """Tell systemd, where it wants to know, that the node's own loop goes round (sd_watchdog_enabled(3))."""
    within_us, pid = (os.environ.get(name, "") for name in ("WATCHDOG_USEC", "WATCHDOG_PID"))
    if not within_us.isdecimal() or int(within_us) == 0 or pid not in ("", str(os.getpid())):
        return
    while True:
        tell_service_manager("WATCHDOG=1")
        await trio.sleep(int(within_us) / 2e6)


def _print_ready(ready: Ready, home: Home, as_json: bool) -> None:
    if as_json:
        say_json(
            {
                "address": ready.address,
                "role": ready.role,
                "listeners": ready.listeners,
                "durability": ready.durability,
                "queue": {"messages": ready.messages, "bytes": ready.bytes},
                "home": str(home.path),
                "pid": os.getpid(),
                "services": ready.services,
            }
        )
        return
    queue = f"{counted(ready.messages, 'message')}, {size_text(ready.bytes)}"
    listeners = [("listening", url) for url in ready.listeners]
    services = [
        ("" if at else clean(service, NAME_MAX), clean(f"{name}: {value}", 1000))
        for service, told in ready.services.items()
        for at, (name, value) in enumerate(told.items())
    ]
    facts(
        [
            ("address", key_text("addr", ready.address)),
            *listeners,
            *services,
            ("durability", ready.durability),
            ("queue", queue),
        ]
    )


def tell_service_manager(state: str) -> None:
    """Send `state` to systemd, as `Type=notify` expects; do nothing without `NOTIFY_SOCKET`."""
    place = os.environ.get("NOTIFY_SOCKET", "")
    if place.startswith(("/", "@")):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
            try:
                sock.sendto(state.encode(), place.replace("@", "\0", 1) if place[0] == "@" else place)
            except OSError as error:
                log.warning("the service manager at %s cannot be notified: %s", place, error)
