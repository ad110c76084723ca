"""Services: addressed actors on the node's own links, written the same way in the router's process and in another.

    class Echo(Service):
        async def on_message(self, message: Received) -> None:
            if message.source is not None:
                await self.node.send(message.source, message.body)

The node runs it when its configuration names it (`services = ["services.echo"]`), over the memory transport; `run`
runs it in a process of its own, over the node's Unix socket. Either way it has a key, signs what it sends, and is told
what is addressed to it; if it fails it is started again, and what it had not settled comes again.
"""

from __future__ import annotations

import importlib
import logging
import random
from collections.abc import Mapping
from typing import Any

import pykka
import trio

from router.actors.actor import TrioActor, actor_system
from router.actors.supervisor import BackOff, Supervisor
from router.client.errors import Refused
from router.client.node import Node, connect
from router.client.received import Received
from router.core.crypto import SigningKey
from router.settings import keyring
from router.settings.home import Home

KEY_PREFIX = "service-"

log = logging.getLogger(__name__)

__all__ = ["Received", "Service", "UnknownService", "key_of", "load_class", "run", "supervise"]


class UnknownService(Exception):
    """A service that is named cannot be loaded; the text says why and what to do."""


class Service(TrioActor):
    """Subclass it and fill in `on_message`. `options` is its own table of the configuration, `[services.NAME]`."""

    node: Node

    def __init__(self, url: str, key: SigningKey, options: Mapping[str, Any]) -> None:
        super().__init__()
        self.address = key.public
        self.options = options
        self._url = url
        self._key = key

    def on_start(self) -> None:
        self.nursery.start_soon(self._serve)

    async def _serve(self) -> None:
        async with connect(url=self._url, key=self._key, when_down="queue") as self.node:
            await self.on_connected()
            async for message in self.node:
                try:
                    await self.on_message(message)
                except Refused as refusal:  # what it sent in answer is refused: an outcome, and the next one's turn
                    log.warning("%s: %s", self, refusal)

    async def on_connected(self) -> None:
        """Join groups, start tasks in `self.nursery`."""

    async def on_message(self, message: Received) -> None:
        """A unicast to this service, or a message of a group it joined. It is settled when this returns.

        A `Refused` that it lets through is logged, and the message counts as handled. Any other exception starts the
        service again, and the message comes again.
        """


def load_class(spec: str) -> type[Service]:
    """The class that `services.echo` or `services.echo:Echo` names; `UnknownService` if there is none."""
    module_name, _, class_name = spec.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise UnknownService(f"the service {spec} cannot be loaded: {error}; node.services names it") from None
    if class_name:
        found = [getattr(module, class_name, None)]
    else:
        own = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module_name]
        found = [one for one in own if issubclass(one, Service)]
    if len(found) != 1 or not isinstance(found[0], type) or not issubclass(found[0], Service):
        raise UnknownService(f"{module_name} does not hold exactly one service; name it as {module_name}:CLASS")
    return found[0]


def key_of(home: Home, name: str) -> SigningKey:
    """The key under which a service of that name is kept in the home."""
    return keyring.load_or_create(home, f"{KEY_PREFIX}{name}")


def supervise(
    service: type[Service], url: str, key: SigningKey, options: Mapping[str, Any], back_off: BackOff
) -> pykka.ActorRef[Supervisor]:
    """Run the service under a supervisor, inside an actor system."""
    return Supervisor.start(lambda: service.start(url, key, options), random.random, back_off)


async def run(service: type[Service], name: str, home: Home, options: Mapping[str, Any] | None = None) -> None:
    """Run the service in this process, signed on to the node of `home`, until cancelled."""
    async with actor_system():
        supervise(service, f"unix://{home.socket_path}", key_of(home, name), options or {}, BackOff())
        await trio.sleep_forever()
