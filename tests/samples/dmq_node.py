"""A DMQ node's rules under a host that keeps everything in memory, and clients that talk to it without sockets."""

from __future__ import annotations

from math import inf
from pkgutil import resolve_name
from random import Random
from typing import Any

import msgspec

from router.core.link.machine import Agency
from router.core.wire.crypto import SigningKey
from router.service import contract as c
from samples.dmq import BODY, EXPIRES_AT, NOW, POOLS
from services.dmq.core.messages.pool_keys import stake_file
from services.dmq.core.messages.signed_message import Dmq05
from services.dmq.core.networks import network_of
from services.dmq.core.peers.peers import DOORS
from services.dmq.core.protocols import handshake as h
from services.dmq.core.protocols import notification as n
from services.dmq.core.protocols import submission as s
from services.dmq.core.protocols.client_session import Session
from services.dmq.core.protocols.revision import REVISIONS
from services.dmq.core.stake.distribution import read_stake
from services.dmq.rules import TICK_S, DmqNode
from services.dmq.settings import Settings
from services.dmq.sources import encoded

SETTINGS = Settings(stake_file="stake", consumers=("a=unix:a.sock", "b=unix:b.sock"))


class Kept(dict[bytes, bytes]):
    """The kept state, on a disk with room or without."""

    has_room = True


class Host:
    """The host: keeps state, runs jobs at once, and carries bytes; `crash` makes the rules anew from the kept state.

    `gathers`: whether what gathers for a moment does so until the test lets time pass; else it passes at once.
    `settles`: whether what is heard next ends a cycle, as if nothing else had come meanwhile.
    `outward`: what was dialled, and written to other nodes; `known`: the streams that keep their places; `fabric`: what
    was joined, left, published, sent and refused there.
    `stake`: what is read for a stake file; None: reading it fails."""

    def __init__(self, settings: Settings, *pools: Any, has_stake: bool = True) -> None:
        self.settings = settings
        self.stake = encoded(read_stake(stake_file(*pools), NOW.wall_s), 1) if has_stake else None
        self.now = c.Now(NOW.wall_s, NOW.mono_s)
        self.kept = Kept()
        self.notes: list[c.LogEvent] = []
        self.warnings: list[str] = []
        self.mended: list[str] = []
        self.informed: list[str] = []
        self.clients: dict[tuple[str, str], Client] = {}
        self.waiting: list[c.Compute] = []
        self.outward: list[c.Connect | c.Write] = []
        self.known: list[tuple[str, str]] = []
        self.fabric: list[c.Join | c.Leave | c.Publish | c.Send | c.Refuse] = []
        self.computes = True
        self.settles = True
        self.gathers = False
        self.wake_s = inf
        self.start()

    def start(self) -> None:
        key = SigningKey(bytes(32)).public
        self.rules = DmqNode(c.Setup("dmq", key, self.settings, self.kept, Random(1)))
        self.hear(c.Started(key))

    def crash(self) -> None:
        """Kill the node: connections and jobs end, kept state stays."""
        self.clients.clear()
        self.waiting.clear()
        self.start()

    def pass_time(self, seconds: float) -> None:
        self.now = c.Now(self.now.wall_s + seconds, self.now.mono_s + seconds)
        self.hear(c.Tick())

    def hear(self, heard: c.Heard) -> list[c.Deed]:
        deeds = self.rules.hear(heard, self.now)
        if self.settles:
            deeds += self.rules.settled(self.now)
        for deed in deeds:  # all of it commits, before anything is seen
            if isinstance(deed, c.Put):
                self.kept.pop(deed.key, None) if deed.value is None else self.kept.update({deed.key: deed.value})
            elif isinstance(deed, c.LogEvent):
                self.notes.append(deed)
            elif isinstance(deed, c.Warn):
                self.warnings.append(deed.text)
            elif isinstance(deed, c.Inform):
                self.informed.append(deed.text)
                self.mended += filter(None, [deed.mends])
        for deed in deeds:
            if isinstance(deed, c.Write) and (client := self.clients.get((deed.door, deed.peer))):
                client.hear(deed.data)
            elif isinstance(deed, c.Join | c.Leave | c.Publish | c.Send | c.Refuse):
                self.fabric.append(deed)
            elif isinstance(deed, c.MarkKnown):
                self.known.append((deed.door, deed.peer))
            elif isinstance(deed, c.Compute):
                self.waiting.append(deed)
            elif isinstance(deed, c.Connect) or (isinstance(deed, c.Write) and deed.door in DOORS):
                self.outward.append(deed)
        while self.computes and self.waiting:
            self.compute()
        self.wake_s = next((one.at_s for one in reversed(deeds) if isinstance(one, c.Wake)), self.wake_s)
        if self.settles and not self.gathers and self.wake_s - self.now.wall_s < TICK_S / 2:
            self.pass_time(max(1e-6, self.wake_s - self.now.wall_s))
        return deeds

    def compute(self) -> None:
        """Run the job that was requested first."""
        job = self.waiting.pop(0)
        if job.function.endswith(":stake_file"):
            self.hear(c.Computed(job.tag, self.stake or b"", "" if self.stake else "it is half a file"))
        else:
            self.hear(c.Computed(job.tag, resolve_name(job.function)(job.argument)))

    def ask(self, word: str, argument: str = "") -> Any:
        [answer] = [one for one in self.hear(c.Asked(1, word, argument)) if isinstance(one, c.Answer)]
        return answer.value

    def connect(self, door: str = "local", *, greets: bool = True, user: int | None = 1000) -> Client:
        client = Client(self, door, str(len(self.notes) + len(self.clients) + Random().randrange(1 << 40)))
        self.clients[door, client.peer] = client
        self.hear(c.Opened(door, client.peer, user=user))
        if greets:
            client.say(h.NUMBER, h.propose(network_of(self.settings.network).magic))
        return client

    def events(self, event: str) -> list[c.LogEvent]:
        return [one for one in self.notes if one.event == event]


class Client:
    """A signer's or a consumer's end."""

    def __init__(self, host: Host, door: str, peer: str) -> None:
        self._host = host
        self.door = door
        self.peer = peer
        self.session = Session(Agency.INITIATOR, REVISIONS[host.settings.revision])
        self.heard: list[Any] = []
        self.is_closed = False

    def hear(self, data: bytes) -> None:
        if not data:
            self.is_closed = True
            self.hang_up()
        else:
            self.heard += [one.message for one in self.session.hear(data, 0)]

    def send(self, data: bytes) -> None:
        self._host.hear(c.Came(self.door, self.peer, data))

    def say(self, number: int, message: Any) -> None:
        self.session.say(number, message)
        self.send(b"".join(iter(lambda: self.session.take(0), b"")))

    def submit(self, wire: bytes) -> Any:
        """Hand a message in, and return the answer; None if there is none yet."""
        self.heard.clear()
        self.say(s.NUMBER, s.MsgSubmitMessage(wire))
        return self.heard[0] if self.heard else None

    def request(self, *, blocking: bool = True) -> tuple[bytes, ...] | None:
        """Ask for messages, and return those in the reply; None if there is no reply yet."""
        self.heard.clear()
        self.say(n.NUMBER, n.MsgRequestMessagesBlocking() if blocking else n.MsgRequestMessagesNonBlocking())
        return self.messages()

    def messages(self) -> tuple[bytes, ...] | None:
        return self.heard[-1].messages if self.heard else None

    def hang_up(self) -> None:
        if self._host.clients.pop((self.door, self.peer), None) is not None:
            self._host.hear(c.Came(self.door, self.peer, b""))


def host(**given: object) -> Host:
    """Return a node of two named consumers, a and b, in which the pools of the samples have stake."""
    return Host(msgspec.structs.replace(SETTINGS, **given), *(pool.id for pool in POOLS))


def wire(number: int = 0, text: bytes = b"", *, expires_at: int = EXPIRES_AT) -> bytes:
    """Return a message of the pool of this number."""
    return Dmq05().write(POOLS[number].draft(text + BODY, expires_at=expires_at))
