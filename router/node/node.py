"""The composition root, which creates all parts of a running node."""

from __future__ import annotations

import logging
import os
import random
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import count
from typing import Any

import trio
from msgspec import Struct, structs
from msgspec.structs import replace

from router.actors.actor import actor_system
from router.actors.heap import keep_giving_back
from router.core.neighbours.dial_budget import DialBudgets
from router.core.neighbours.directory import Directory, Neighbour, Standing
from router.core.router import Router
from router.core.routing.admission import no_place
from router.core.service.roles import Role
from router.core.wire.address import addresses_of_node
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.now import Now
from router.core.wire.text import key_text
from router.disk.store.store import Store
from router.node import descriptors, memory, wall_clock
from router.node.admin import Inquiries
from router.node.asked_listeners import AskedListeners
from router.node.connection import Connection, NodeSide
from router.node.cycle import Cycle
from router.node.dialler import Dialler, LastWords
from router.node.group_names import GroupNames
from router.node.guest import InvitationFiles
from router.node.in_flight import InFlight
from router.node.key_files import KeyFiles
from router.node.limits import (
    clock_limits,
    core_limits,
    cycle_limits,
    handshake_limits,
    housekeeping_limits,
    in_flight_bytes,
    link_limits,
    pace_limits,
    strangers_max,
    unknown_max,
    verifiers,
)
from router.node.link_events import NetworkChanged
from router.node.message_router import Drain, HomeFiles, MessageRouter
from router.node.node_starts import NodeStarts
from router.node.opened_disk import open_disk
from router.node.orders import Reconfigured, ServiceNews
from router.node.peers_file import PeersFile
from router.node.questions.configuration import ConfigurationQuestions
from router.node.questions.finder import load_questions
from router.node.questions.groups import GroupQuestions
from router.node.questions.invitations import InvitationQuestions
from router.node.questions.log import LogQuestions
from router.node.questions.metrics import MetricsQuestions
from router.node.questions.peers import PeerQuestions
from router.node.questions.question import Questions
from router.node.questions.queues import QueueQuestions
from router.node.questions.reports import ReportQuestions
from router.node.questions.status import StatusQuestions
from router.node.residents import Residents
from router.node.snapshots import Snapshots
from router.node.start_files import StartFiles
from router.node.superseded import Superseded
from router.node.taking_up import offer_to_all, take_up
from router.node.welcome import offer_to, welcome
from router.service.running import guests_url, inside_url
from router.service.verbs.add_neighbour import NeighbourUnreachable
from router.service.verbs.listen import Listening
from router.settings import core_dumps, keyring
from router.settings.config import OWNER_URL, Config
from router.settings.config_limits import Limits
from router.settings.config_services import instances, key_name
from router.settings.config_text import ConfigError
from router.settings.home import Home
from router.transport import contract as transport
from router.transport.contract import Stream
from router.transport.network_changes import watch
from router.transport.pace import Paces
from router.why.questions import Fates

log = logging.getLogger(__name__)

INBOX_BUSY = 20_000


class SystemClock:
    """Both clocks of this machine."""

    @staticmethod
    def wall_ns() -> int:
        return time.time_ns()

    @staticmethod
    def mono_ns() -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)  # it runs on while a laptop sleeps: waking is no jump

    def now(self) -> Now:
        """Return a reading of both."""
        return Now(self.wall_ns(), self.mono_ns())


class Ready(Struct, frozen=True):
    """The facts that `router serve` prints when the node listens."""

    address: PublicKey
    role: str
    listeners: tuple[str, ...]
    durability: str
    messages: int
    bytes: int
    services: Mapping[str, Mapping[str, str]]


def neighbours(config: Config) -> list[Neighbour]:
    return [
        Neighbour(
            bytes(one.address),
            one.name,
            frozenset(one.grant),
            one.uplink,
            one.blocked,
            one.urls,
            one.learned,
            until_s=one.until_s,
        )
        for one in config.peers
    ]


def directory(config: Config, me: PublicKey) -> Directory:
    """Return the directory of neighbours and local keys in the configuration."""
    found = Directory(bytes(me), accept_strangers=config.node.accept == "anyone", join_open=config.node.join_open)
    found.replace_neighbours(neighbours(config))
    found.configured_locals = frozenset(bytes(one.address) for one in config.local)
    found.public = frozenset(bytes(one.address) for one in config.local if one.public)
    found.locals = set(found.configured_locals)
    return found


class RunningNode:
    """One running node on one home. `run` returns when it is stopped or fails. `needed`: the name of the service
    without which it does not start, "" if there is none."""

    def __init__(self, home: Home, config: Config, load_config: Callable[[], Config], needed: str = "") -> None:
        self._home = home
        self._group_names = GroupNames(home.path / "groups", partial(keyring.group_names, home))
        self._key_names = GroupNames(home.path / "keys", partial(keyring.key_names, home))
        self._needed = needed
        self._config = config
        self._load_config = load_config if isinstance(load_config, StartFiles) else StartFiles(home, load_config)
        self._clock = SystemClock()
        self._numbers = count(1)
        self._starts = NodeStarts(home.path)
        self._began_s = time.monotonic()
        self._listeners: list[str] = []
        self._unknown = 0  # accepted connections of keys that this node does not know

    def stop(self) -> None:
        """Drain and end the node; messages in custody stay safe on disk."""
        self._starts.stop()

    async def run(self, on_ready: Callable[[Ready], None]) -> None:
        """Run the node until it is stopped; again where it is to begin anew (`NodeStarts`)."""
        await self._starts.each(partial(self._run, on_ready))

    async def _run(self, on_ready: Callable[[Ready], None], again: bool) -> None:
        with ExitStack() as held:
            self._held = held.enter_context(self._home.lock())
            held.callback(self._home.clear_socket)
            now = self._clock.now()
            wall_clock.check(now)
            config = self._config = _that_fits(
                self._load_config() if again or self._load_config.have_changed() else self._config
            )
            core_dumps.hide_memory()
            if (new := self._starts.rotate(self._home)) is not None:
                log.warning("this node has another key: its address is %s now", key_text("addr", new))
            self._key = keyring.load_or_create(self._home, keyring.NODE)
            disk = held.enter_context(open_disk(self._home, config, self._key, now))
            self._logbook = disk.logbook
            self._wall = wall_clock.WallClock(now, clock_limits(config), disk.clock())
            now = self._wall.now(now)
            self._directory = directory(config, self._key.public)
            self._superseded = Superseded(self._directory)
            keys = self._home.key_path.parent
            self._key_files = KeyFiles(keys)
            self._admit_services(config)
            router = Router(self._key, self._directory, core_limits(config), disk.recovered, now)
            self._guest = InvitationFiles(self._home, config.node.name)
            self._is_barred = router.copies.is_barred
            claim, was = take_up(router, self._home.config_path, keys, self._guest, self._key_files, now)
            self._offer = offer_to_all(config, disk.recovered, claim, was, self._public_service)
            self._paces = Paces(pace_limits(config.limits))
            self._in_flight = InFlight(*in_flight_bytes(config.limits))
            self._snapshots = Snapshots(self._home.path, bytes(self._key.public), self._clock.now, config.backup)
            memory.settle_in()
            with self._held.explained():
                async with actor_system():
                    await self._run_actors(router, disk.store, on_ready)

    def _admit_services(self, config: Config) -> None:
        """Enter our services into the directory, by the keys that they have from now on."""
        rotated = self._key_files.rotated(key_name(one.name) for one in instances(config.node.services))
        self._residents = residents = Residents(self._home, config, self._needed)
        self._directory.admit_services(residents.directory, residents.public, rotated)

    async def _run_actors(self, router: Router, store: Store, on_ready: Callable[[Ready], None]) -> None:
        async with trio.open_nursery() as connections:
            dialler = self._dialler_in(connections, DialBudgets(router.rejections.dials))
            cycle = self._cycle_on(router, store, dialler)
            file = PeersFile(self._home.config_path, lambda: tuple(neighbours(self._load_config())))
            self._asked = AskedListeners(connections, self._listen, self._listens_for)
            self._message_router = MessageRouter.launch(
                cycle,
                store,
                self._logbook,
                verifiers(self._config),
                dialler,
                HomeFiles(self._guest, file, self._key_files, self._starts),
                self._asked,
                cycle_limits(self._config).drain_s,
            )
            shared = self._in_flight, self._clock, self._logbook.head, self._is_busy, self._paces
            hear, is_stranger = self._message_router.hear, router.links.is_stranger
            self._side = NodeSide(self._key, hear, *shared, is_stranger=is_stranger)
            self._listeners = [await self._listen(connections, url) for url in self._urls()]
            self._directory.addresses = addresses_of_node(self._config.node.advertise or self._listeners)
            await _read_names(self._home, connections, self._group_names, self._key_names)
            await self._start_services(connections)
            dialler.reconcile(self._directory.neighbours.values())
            connections.start_soon(watch, partial(self._network_changed, dialler))
            connections.start_soon(self._snapshots.run)
            connections.start_soon(keep_giving_back)
            if self._load_config.have_changed() and (problem := self.reload()):
                log.warning("%s", problem)
            on_ready(self._ready(router))
            await self._starts.stopping.wait()
            drained = trio.Event()
            self._message_router.actor_ref.tell(Drain(drained))
            await drained.wait()
            connections.cancel_scope.cancel()

    def _dialler_in(self, connections: trio.Nursery, budgets: DialBudgets) -> Dialler:
        found = Dialler(
            self._key,
            self._directory.neighbours.values(),
            self._config.link,
            connections,
            self._serve_dialled,
            self._waiting,
            random.random,
            lambda: self._directory.is_on_loopback,
            budgets,
            self._not_connected,
            self._directory.successors.formers,
        )
        if self._is_barred:
            found.rest()
        return found

    def _cycle_on(self, router: Router, store: Store, dialler: Dialler) -> Cycle:
        config = self._config
        return Cycle(
            router,
            store,
            self._logbook,
            self._in_flight,
            self._clock,
            self._wall,
            cycle_limits(config),
            housekeeping_limits(config),
            Inquiries(load_questions(*self._questions(dialler)), router.reception.words),
            Fates(self._logbook, lambda: dialler.problems, config.limits.ttl_s_max, self._key_names.known),
            partial(self._free_bytes, store),
        )

    def _free_bytes(self, store: Store) -> int:
        """Return the free space of the store's disk; raise `HomeError` if the home is not there any more."""
        self._held.check_in_place()
        return shutil.disk_usage(store.path).free

    def _questions(self, dialler: Dialler) -> tuple[Questions, ...]:
        """Return the questions that need other parts of this node than the message router."""

        def invited(router: Router) -> list[dict[str, Any]]:
            return self._guest.rows(router.redeeming, dialler.problems)

        keys = self._key_names.known
        load = self._logbook, self._residents.facts, lambda: self._message_router.unverified
        return (
            StatusQuestions(self._facts, self._residents.facts, invited, self._snapshots.facts, keys),
            PeerQuestions(dialler.problems, invited, keys),
            QueueQuestions(keys),
            InvitationQuestions(invited, dialler.hurry),
            GroupQuestions(self._group_names.known, keys),
            LogQuestions(self._logbook.sealed_seq),
            MetricsQuestions(*load, self._snapshots.facts, self._superseded.facts),
            ConfigurationQuestions(self.reload),
            ReportQuestions(self._residents.hear_report),
        )

    def _ready(self, router: Router) -> Ready:
        config, held = self._config, router.queues.node
        return Ready(
            self._key.public,
            config.node.role,
            tuple(self._listeners),
            config.store.durability,
            held.messages,
            held.bytes,
            self._residents.at_start(),
        )

    def _public_service(self, role: Role) -> PublicKey | None:
        key = self._directory.with_role(role)
        return PublicKey(key) if key is not None and key in self._directory.public else None

    def _urls(self) -> tuple[str, ...]:
        """Return where this node listens: a barred one on its owner's socket alone."""
        return self._home.listen_urls((OWNER_URL,) if self._is_barred else self._config.node.listen)

    async def _start_services(self, nursery: trio.Nursery) -> None:
        """Start the services, none on a barred node. Those in this process reach the router over memory streams."""
        if self._is_barred:
            self._residents.rest()
        if not self._residents or self._is_barred:
            return
        url = await self._listen(nursery, inside_url(self._key.public))
        guests = await self._listen(nursery, f"{guests_url(self._home)}?owner=no&passed=yes")
        self._residents.start(nursery, url, guests.partition("?")[0])
        await self._residents.until_open()

    def _listens_for(self, service: bytes, url: str, problem: str) -> None:
        """Tell a service where this node listens for it, or why it does not."""
        self._message_router.hear(ServiceNews(service, Listening(url, problem)))

    def _not_connected(self, neighbour: Neighbour, text: str, let_in: bool) -> None:
        """Tell the service that named a neighbour that connecting to it failed."""
        if neighbour.by:
            news = NeighbourUnreachable(PublicKey(neighbour.key), text, let_in)
            self._message_router.hear(ServiceNews(neighbour.by, news))

    def _network_changed(self, dialler: Dialler) -> None:
        dialler.network_changed()
        self._message_router.hear(NetworkChanged())

    def _facts(self) -> dict[str, Any]:
        return {
            "address": self._key.public.hex(),
            "role": self._config.node.role,
            "name": self._config.node.name,
            "uptime_s": round(time.monotonic() - self._began_s, 3),
            "listeners": [*self._listeners, *self._asked.urls.values()],
            "durability": self._config.store.durability,
            "home": str(self._home.path),
            "pid": os.getpid(),
            "descriptors": descriptors.in_use(),
            "verifiers": verifiers(self._config),
            "superseded": self._superseded.facts(),
        }

    def reload(self) -> str:
        """Read neighbours, `[backup]` and invitations again; return the problems of `router.toml`, "" if none."""
        try:
            config = self._load_config()
        except ConfigError as error:
            return str(error)
        self._snapshots.configure(config.backup)
        found = tuple(neighbours(config))
        self._message_router.hear(Reconfigured(found, self._guest.offers(), self._guest.inviters()))
        return ""

    # -- connections ---------------------------------------------------------------------------------------

    async def _listen(self, nursery: trio.Nursery, url: str) -> str:
        serve = transport.load(transport.scheme_of(url)).listen
        return str(
            await nursery.start(
                _listening, serve, url, self._key, self._serve_accepted, self._config.limits, self._is_known
            )
        )

    async def _serve_accepted(self, stream: Stream) -> None:
        """Serve an accepted connection; count one with an unknown key, let in or not, as their number is limited."""
        is_known = stream.peer is None or self._is_known(stream.peer, stream.owner)
        self._unknown += not is_known
        try:
            await self._serve(stream, None, is_known=is_known)
        finally:
            self._unknown -= not is_known

    def _is_known(self, key: PublicKey, owner: bool = False) -> bool:
        return self._directory.standing(bytes(key), owner) not in (None, Standing.STRANGER)

    async def _serve_dialled(self, stream: Stream, expect: PublicKey) -> LastWords:
        try:
            return await self._serve(stream, expect)
        finally:
            with trio.move_on_after(1) as scope:
                scope.shield = True
                await stream.aclose()

    async def _serve(self, stream: Stream, expect: PublicKey | None, *, is_known: bool = True) -> LastWords:
        """Serve a connection to its end; return the other end's last words about this node."""
        config = self._config
        judge = partial(welcome, self._directory, config, stream.owner)
        offer = offer_to(stream, replace(self._offer, nonce=os.urandom(16)), config, judge)
        connection = Connection(
            next(self._numbers),
            stream,
            offer,
            self._side,
            dialled=expect is not None,
            expect=expect,
            limits=link_limits(config, is_known=is_known),
            welcome=judge,
        )
        if not is_known and self._unknown > unknown_max(config.limits):
            found = judge(stream.peer) if stream.peer is not None else None
            is_stranger = found is not None and not found.refused
            connection.link_writer.close(*no_place(strangers_max(config.limits) if is_stranger else 0))
        try:
            log.info("%s: %s", stream.where, await connection.run())
        except* Exception:  # one neighbour's input must not end the node
            log.exception("%s: a fault of this program ended the connection", stream.where)
        self._superseded.heard(stream.peer or expect, is_superseded=connection.last_words.is_superseded)
        if expect is not None and stream.peer not in (None, expect) and connection.is_turned_down:
            return connection.last_words._replace(is_other=True)
        if expect is not None and self._guest.has_heard_block(expect):
            return connection.last_words._replace(is_logged=True)
        return connection.last_words

    def _is_busy(self) -> bool:
        """Whether readers must wait, because too many events are not yet fed."""
        return len(self._message_router.cycle) > INBOX_BUSY

    async def _waiting(self, key: bytes) -> bool:
        return self._message_router.cycle.is_owed(key)


async def _listening(
    serve: Callable[..., Awaitable[None]],
    url: str,
    key: SigningKey,
    handler: Callable[[Stream], Awaitable[None]],
    limits: Limits,
    is_known: Callable[[PublicKey], bool],
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    def refused(where: str, text: str) -> None:
        log.info("%s: %s", where, text)

    more = transport.accepted_by(serve, {"handshakes": handshake_limits(limits), "is_known": is_known})
    await serve(
        url, key, handler, task_status=task_status, on_refused=refused, connections_max=limits.connections_max, **more
    )


def _that_fits(config: Config) -> Config:
    """Return the configuration with only as many connections as this process has file descriptors for."""
    remote = [url for url in config.node.listen if not transport.is_local(url)]
    most = descriptors.make_room(config.limits.connections_max, len(remote))
    return structs.replace(config, limits=structs.replace(config.limits, connections_max=most))


async def _read_names(home: Home, nursery: trio.Nursery, *names: GroupNames) -> None:
    """Read keys and groups in a thread, so that no service reads files on this loop, and begin to read names."""
    await trio.to_thread.run_sync(keyring.read_all, home)
    for one in names:
        await nursery.start(one.run)
