"""Services: addressed actors on the node's own links, written the same way in the router's process and in another.

    class Echo(Service):
        async def on_message(self, message: Received) -> None:
            if message.source is not None:
                await self.node.send(message.source, message.body)

The node runs it when its configuration names it (`services = ["services.echo"]`), over the memory transport; `run`
runs it in a process of its own, over the node's Unix socket. Either way it has a key, signs what it sends, and is told
what is addressed to it; if it fails it is started again, and what it had not settled comes again. A message on which it
fails `attempts_max` times is refused, and the next one has its turn.
"""

from __future__ import annotations

import importlib
import logging
import random
from collections.abc import Awaitable, Mapping
from types import TracebackType
from typing import Any

import pykka
import trio

from router.actors.actor import TrioActor, actor_system, as_failure
from router.actors.supervisor import BackOff, Supervisor
from router.client.errors import NodeUnavailable, Refused
from router.client.node import Node, connect
from router.client.received import Received
from router.core.wire.crypto import MessageId, SigningKey
from router.core.wire.reasons import Reason
from router.core.wire.text import key_text, short
from router.settings import keyring
from router.settings.config import Config
from router.settings.home import Home

KEY_PREFIX = "service-"
DEFAULTS = Config().node
ATTEMPTS_MAX = DEFAULTS.service_attempts_max
FAILED_MESSAGES_MAX = 1000
"""So many messages on which a service failed are remembered with their attempts; the oldest give way."""

log = logging.getLogger(__name__)

__all__ = ["Attempts", "Received", "Service", "UnknownService", "key_of", "load_class", "run", "supervise"]


class UnknownService(Exception):
    """A service that is named cannot be loaded; the text says why and what to do."""


class Attempts:
    """How often a service has failed on which message. Outlives its restarts, though not its process."""

    def __init__(self, most: int, messages_max: int = FAILED_MESSAGES_MAX) -> None:
        self.most = most
        self.ended = 0
        """How many messages were handled or refused."""
        self._messages_max = messages_max
        self._failures: dict[MessageId, int] = {}

    def __repr__(self) -> str:
        return f"<attempts: {len(self._failures)} messages failed, each at most {self.most} times>"

    def fail(self, message: MessageId) -> None:
        self._failures[message] = self._failures.pop(message, 0) + 1
        if len(self._failures) > self._messages_max:
            del self._failures[next(iter(self._failures))]

    def are_used_up(self, message: MessageId) -> bool:
        return self._failures.get(message, 0) >= self.most

    def end(self, message: MessageId) -> None:
        """Handled, or refused for good; a refusal may have to be said again."""
        self.ended += 1
        if not self.are_used_up(message):
            self._failures.pop(message, None)


class Service(TrioActor):
    """Subclass it and fill in `on_message`. `options` is its own table of the configuration, `[services.NAME]`."""

    node: Node

    def __init__(self, url: str, key: SigningKey, options: Mapping[str, Any], attempts: Attempts | None = None) -> None:
        super().__init__()
        self.address = key.public
        self.options = options
        self._url = url
        self._key = key
        self._attempts = attempts or Attempts(ATTEMPTS_MAX)
        self._in_hand: MessageId | None = None

    def on_start(self) -> None:
        self.nursery.start_soon(self._serve)

    @trio.lowlevel.enable_ki_protection  # so a Ctrl-C goes to trio's main task: what comes from here is the service's
    async def _serve(self) -> None:
        async with connect(url=self._url, key=self._key, when_down="queue") as self.node:
            await _as_failure(self.on_connected())
            async for message in self.node:
                if self._attempts.are_used_up(message.id):
                    await self._refuse(message)  # that this was said before may have been lost with its connection
                else:
                    await self._attempt(message)

    def on_failure(
        self, exception_type: type[BaseException] | None, exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        """Count a failure elsewhere, as in a task of `nursery`, against the message that was being handled."""
        if self._in_hand is not None:
            self._attempts.fail(self._in_hand)

    async def _attempt(self, message: Received) -> None:
        self._in_hand = message.id
        try:
            await _as_failure(self.on_message(message))
        except Refused as refusal:  # what it sent in answer is refused: an outcome, and the next one's turn
            log.warning("%s: %s", self, refusal)
        except NodeUnavailable:
            self._in_hand = None  # which is not the message's fault
            raise
        except Exception as error:
            self._in_hand = None
            self._attempts.fail(message.id)
            if not self._attempts.are_used_up(message.id):
                raise
            which, most = short(key_text("msg", message.id)), self._attempts.most
            said = (
                "%s failed %d times on message %s, the last time with %r; it is refused, and the next one has its turn"
            )
            log.error(said, self, most, which, error, exc_info=error)
            await self._refuse(message)
            return
        self._in_hand = None
        self._attempts.end(message.id)

    async def _refuse(self, message: Received) -> None:
        await message.refuse(Reason.PEER_REFUSED, f"the service failed on it {self._attempts.most} times")
        self._attempts.end(message.id)

    async def on_connected(self) -> None:
        """Join groups, start tasks in `self.nursery`."""

    async def on_message(self, message: Received) -> None:
        """A unicast to this service, or a message of a group it joined. It is settled when this returns.

        A `Refused` that it lets through is logged, and the message counts as handled. Any other exception starts the
        service again, and the message comes again; the one that uses up its attempts ends the message instead. So do
        `sys.exit()`, also in a task of `self.nursery`, and a `KeyboardInterrupt`: a service does not end the node.
        """


async def _as_failure(own: Awaitable[None]) -> None:
    """Run what is the service's own; `sys.exit()` and `KeyboardInterrupt` there fail it and end nothing else."""
    try:
        await own
    except Exception:
        raise
    except trio.Cancelled:
        raise
    except BaseException as error:
        failure = as_failure(error, KeyboardInterrupt)
        raise failure from failure.__cause__


def load_class(spec: str) -> type[Service]:
    """The class that `services.echo` or `services.echo:Echo` names; `UnknownService` if there is none."""
    module_name, _, class_name = spec.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # it is somebody else's file: whatever goes wrong in it is its own
        said = f"the service {spec} of node.services cannot be loaded: {type(error).__name__}: {error}"
        advice = "; install it into this environment, or name its folder in PYTHONPATH"
        raise UnknownService(said + (advice if isinstance(error, ImportError) else "")) from None
    except SystemExit as error:
        said = f"the service {spec} of node.services cannot be loaded: its module ends the program ({error!r})"
        raise UnknownService(f"{said}; what is no definition belongs under `if __name__ == '__main__':`") from None
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
    service: type[Service], url: str, key: SigningKey, options: Mapping[str, Any], back_off: BackOff,
    attempts_max: int = ATTEMPTS_MAX,
) -> pykka.ActorRef[Supervisor]:  # fmt: skip
    """Run the service under a supervisor, inside an actor system."""
    attempts = Attempts(attempts_max)
    return Supervisor.start(
        lambda: service.start(url, key, options, attempts), random.random, back_off, lambda: attempts.ended
    )


async def run(
    service: type[Service], name: str, home: Home, options: Mapping[str, Any] | None = None,
    attempts_max: int = ATTEMPTS_MAX,
) -> None:  # fmt: skip
    """Run the service in this process, signed on to the node of `home`, until cancelled."""
    async with actor_system():
        url, back_off = (
            f"unix://{home.socket_path}",
            BackOff(DEFAULTS.service_restart_s_min, DEFAULTS.service_restart_s_max),
        )
        supervise(service, url, key_of(home, name), options or {}, back_off, attempts_max)
        await trio.sleep_forever()
