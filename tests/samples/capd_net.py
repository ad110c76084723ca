"""CAPD pools that are neighbours, and clients of the protocol between Nexa nodes alone, over streams in memory."""

from __future__ import annotations

from collections import deque
from itertools import count
from typing import Any

from router.core.link.machine import Agency
from router.core.wire.reasons import Reason
from router.service import contract as c
from samples.capd import BORN
from samples.capd_host import Host
from services.capd.core import messages as m
from services.capd.core.message import CapdMessage
from services.capd.core.nexa.commands import GetInfo
from services.capd.core.nexa.envelope import MAGICS
from services.capd.core.nexa.greeting import Version
from services.capd.core.nexa.limits import NexaLimits
from services.capd.core.nexa.neighbours import DIALLED, DOOR
from services.capd.core.nexa.own_commands import GetHeld
from services.capd.core.nexa.packets import Ping, Pong
from services.capd.core.nexa.session import Heard, Session
from services.capd.rules import CapdPool
from services.capd.settings import Settings

REGTEST = MAGICS["regtest"]
_SEEDS = count(1)


class Client:
    """A Nexa node reduced to its connection: it receives the pool's messages, answers pings, and sends what a test asks
    for."""

    def __init__(self, pool: Pool, address: str = "127.0.0.1:4000", nonce: int = 99, agent: bytes = b"/test/") -> None:
        self.pool = pool
        self.session = Session(Agency.INITIATOR, REGTEST, Version(BORN, nonce, agent), 0.0)
        self.heard: list[Heard] = []
        self.is_closed = False
        self.is_reading = True
        self.unread = bytearray()
        self.peer = ""
        pool.open(self, address)
        self.flush()

    def flush(self) -> None:
        """Send what the session has queued."""
        if data := self.session.take():
            self.send(data)

    def send(self, data: bytes) -> None:
        """Send these bytes."""
        if not self.is_closed:
            self.pool.hear(c.Came(DOOR, self.peer, data))

    def say(self, *messages: Any, cookie: int = 0) -> list[Any]:
        """Send these messages; return those received since the last call."""
        for message in messages:
            self.session.say(message, cookie)
        self.flush()
        return self.take()

    def written(self, data: bytes) -> None:
        """Receive bytes from the pool; no bytes close the connection."""
        if not data:
            self.is_closed = True
        elif self.is_reading:
            for one in self.session.hear(data, 0.0):
                if isinstance(one.message, Ping):
                    self.session.say(Pong(one.message.nonce))
                else:
                    self.heard.append(one)
            self.flush()
        else:
            self.unread += data

    def take(self) -> list[Any]:
        """Return the messages received since the last call."""
        found, self.heard = [one.message for one in self.heard], []
        return found


class Pool(Host):
    """A pool whose writes go to the other end of the stream; responses are handled at once, in order."""

    def __init__(self, settings: Settings | None = None, limits: NexaLimits | None = None) -> None:
        self.kind = type("SmallPool", (CapdPool,), {"limits": limits}) if limits else CapdPool
        self.seed = next(_SEEDS)
        self.ends: dict[tuple[str, str], Any] = {}
        self.dialled: list[str] = []
        self._streams = count(1)
        self._waiting: deque[c.Heard] = deque()
        self._is_busy = False
        self.is_stepped = False
        """Whether a wake-up that is due at once is left to the test."""
        super().__init__(settings or Settings(network="regtest"))

    def open(self, end: Any, address: str, door: str = DOOR, tag: str = "") -> None:
        """Open a stream to this pool, and give its name to the other end."""
        peer = str(next(self._streams))
        self.ends[door, peer], end.peer = end, peer
        self.hear(c.Opened(door, peer, address, tag))

    def hear(self, heard: c.Heard) -> list[c.Deed]:
        self._waiting.append(heard)
        found: list[c.Deed] = []
        if self._is_busy:
            return found
        self._is_busy = True
        while self._waiting:
            found += (deeds := super().hear(self._waiting.popleft()))
            for deed in deeds:
                self._carry_out(deed)
        self._is_busy = False
        return found

    def _carry_out(self, deed: c.Deed) -> None:
        match deed:
            case c.Write(door, peer, data) if (door, peer) in self.ends:
                end = self.ends[door, peer]
                if not data:
                    del self.ends[door, peer]
                    self._waiting.append(c.Came(door, peer, b""))
                end.written(data)
            case c.Wake(at_s) if not self.is_stepped and at_s <= self.now.wall_s:
                self._waiting.append(c.Tick())
            case c.Connect(_, url):
                self.dialled.append(url)


class Joint:
    """One end of a stream between two pools: what is written to it, the other pool receives."""

    def __init__(self, pool: Pool, door: str) -> None:
        self.pool, self.door = pool, door
        self.peer = ""
        self.other: Joint

    def written(self, data: bytes) -> None:
        other = self.other
        other.pool.hear(c.Came(other.door, other.peer, data))


def join(dialler: Pool, listener: Pool, target: str, address: str = "127.0.0.1:4000") -> None:
    """Carry out a dialler's `Connect`."""
    one, other = Joint(listener, DOOR), Joint(dialler, DIALLED)
    one.other, other.other = other, one
    listener.open(one, address)
    dialler.open(other, target, DIALLED, target)


def greeted(pool: Pool, address: str = "127.0.0.1:4000", nonce: int = 99) -> Client:
    client = Client(pool, address, nonce)
    assert client.take() == [GetInfo(), GetHeld(0)], "our line is asked for, and what is held"
    return client


def post(pool: Pool, message: CapdMessage) -> int:
    return int(pool.ask(m.Post(1, message.encoded())).result)


def parted(pool: Pool) -> list[tuple[Reason | None, object]]:
    return [(one.reason, one.fields["detail"]) for one in pool.events("capd_parted")]


def peers(pool: Pool) -> dict[str, Any]:
    [answer] = [one for one in pool.hear(c.Asked(1, "peers")) if isinstance(one, c.Answer)]
    found: dict[str, Any] = answer.value
    return found
