"""Interfaces, datagrams and a simulated local network, as the tests of discovery make them."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from ipaddress import ip_interface
from itertools import count
from random import Random
from types import MappingProxyType
from typing import Any

from router.core.wire.address import IpAddress
from router.core.wire.advert import make_advertisement
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.lifetime import expiry_min
from router.service.contract import AddNeighbour, Came, Deed, Now, Tick, Wake, Write
from router.service.roles.discovery import (
    Advertise,
    Dial,
    Interface,
    Interfaces,
    Listen,
    Listening,
    NeighbourAdded,
    Signed,
    UseInterfaces,
    WriteOnClose,
)
from services.discovery.core.lan.lan import FAREWELL, SPOKEN, Lan
from services.discovery.core.lan.networks import EVERYWHERE, Permit

WALL_S = 1_800_000_000.0
DOOR = "lan"
UP = frozenset(("up", "running", "broadcast", "multicast"))
ANY = type(ip_interface("0.0.0.0").ip)("0.0.0.0")


def key_of(number: int) -> SigningKey:
    return SigningKey(number.to_bytes(32, "big"))


LOW, HIGH = sorted((key_of(1), key_of(2)), key=lambda one: one.public)


def at(mono_s: float) -> Now:
    return Now(WALL_S + mono_s, mono_s)


def interface(
    number: int = 1, *, index: int = 2, name: str = "eth0", gateway: bytes = b"", more: str = ""
) -> Interface:
    """Return the interface of the node with that number in 10.0.0.0/24."""
    addresses = [f"10.0.0.{number}/24", f"fe80::{number:x}/64", *([more] if more else [])]
    return Interface(index, name, UP, tuple(map(ip_interface, addresses)), gateway)


def signed(
    key: SigningKey,
    rev: int = 1,
    *,
    ttl_s: int = 30,
    now_s: float = 0.0,
    port: int = 4101,
    groups: int = 0,
    services: Mapping[str, PublicKey] = MappingProxyType({}),
) -> bytes:
    """Return a datagram as a router sends it."""
    named = [key_of(5_000 + number).public for number in range(groups)]
    ends = expiry_min(WALL_S + now_s + 600)
    addresses = [IpAddress(ANY, port)]
    made = make_advertisement(
        key, addresses, groups=named, services=dict(services), rev=rev, ttl_s=ttl_s, expiry_min=ends
    )
    return made.message


def came(data: bytes, peer: str = "10.0.0.9%2:40000", *, to_group: bool = True) -> Came:
    return Came(DOOR, peer, data, to_group)


def of(kind: type[Any], deeds: list[Deed]) -> list[Any]:
    return [one for one in deeds if isinstance(one, kind)]


def carried_out(lan: Lan, what: object, now_s: float) -> list[Deed]:
    """Return what follows from an event, all of whose reports the router carries out at once."""
    deeds = lan.hear(what, at(now_s))
    for added in of(AddNeighbour, deeds):
        deeds += lan.hear(NeighbourAdded(added.key), at(now_s))
    return deeds


def speaking(key: SigningKey = LOW) -> Lan:
    """Return the LAN part of a node that has announced itself at second 0."""
    lan = Lan(key.public, DOOR, Random(3), Permit(EVERYWHERE))
    lan.hear(Interfaces(DOOR, (interface(1),)), at(0))
    lan.hear(Listening("tls://:4101"), at(0))
    lan.hear(Signed(FAREWELL, signed(key, 2, ttl_s=0)), at(0))
    lan.hear(Signed(SPOKEN, signed(key)), at(0))
    return lan


class SimulatedNode:
    """A node's part on the LAN, in surroundings that follow the test's orders."""

    def __init__(self, net: SimulatedNetwork, number: int, began_s: float) -> None:
        self.net, self.number, self.key = net, number, key_of(number)
        self.lan = Lan(self.key.public, DOOR, Random(number), Permit(EVERYWHERE))
        self.wake_s = self.began_s = began_s
        self.at: tuple[int, ...] = ()
        self.dialled: list[PublicKey] = []
        self.last_words: dict[str, bytes] = {}
        self.sent = self.rev = 0

    def hear(self, heard: object) -> None:
        if isinstance(heard, Came) and not self.lan.admits(heard, self.net.now_s):
            return
        for deed in carried_out(self.lan, heard, self.net.now_s):
            match deed:
                case UseInterfaces(_, interfaces):
                    self.at = interfaces
                case Listen(url):
                    self.net.tell(self, Listening(url.replace(":0", ":4101")))
                case Advertise(_, _, ttl_s, _, tag):
                    self.rev += 1
                    self.net.tell(self, Signed(tag, signed(self.key, self.rev, ttl_s=ttl_s, now_s=self.net.now_s)))
                case Write(_, peer, data):
                    self.net.carry(self, peer, data)
                case WriteOnClose(_, peer, data):
                    self.last_words[peer] = data
                case Dial(key):
                    self.dialled.append(key)
                case Wake(at_s):
                    self.net.wake(self, at_s - WALL_S)

    @property
    def here(self) -> set[PublicKey]:
        return {one.key for one in self.lan.neighbours if one.is_here}


class SimulatedNetwork:
    """One link on which datagrams are delayed and lost; time jumps from one event to the next."""

    def __init__(self, seed: int, loss: float = 0.0) -> None:
        self.now_s = 0.0
        self.nodes: list[SimulatedNode] = []
        self.unplugged: set[int] = set()
        self.loss = loss
        self._chance = Random(seed)
        self._numbers = count()
        self._queue: list[tuple[float, int, SimulatedNode, object]] = []

    def add(self, number: int) -> SimulatedNode:
        node = SimulatedNode(self, number, self.now_s)
        self.nodes.append(node)
        node.hear(Interfaces(DOOR, (interface(number),)))
        return node

    def wake(self, node: SimulatedNode, at_s: float) -> None:
        node.wake_s = at_s
        self._put(at_s, node, Tick())

    def tell(self, node: SimulatedNode, what: object) -> None:
        """Let a node handle this after its present event."""
        self._put(self.now_s, node, what)

    def _put(self, at_s: float, node: SimulatedNode, what: object) -> None:
        heapq.heappush(self._queue, (at_s, next(self._numbers), node, what))

    def carry(self, sender: SimulatedNode, peer: str, data: bytes) -> None:
        sender.sent += len(data)
        if sender.number in self.unplugged:
            return
        to_group = peer.startswith("*")
        for node in self.nodes:
            is_meant = to_group or peer.startswith(f"10.0.0.{node.number}%")
            if node.number in self.unplugged or not is_meant or (node is not sender and self._is_lost()):
                continue
            source = f"10.0.0.{sender.number}%2:40000"
            self._put(self.now_s + self._chance.random() * 0.01, node, came(data, source, to_group=to_group))

    def _is_lost(self) -> bool:
        return self._chance.random() < self.loss

    def run(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while self._queue and self._queue[0][0] <= end_s:
            self.now_s, _, node, what = heapq.heappop(self._queue)
            if node in self.nodes and not (isinstance(what, Tick) and node.wake_s != self.now_s):
                node.hear(what)
        self.now_s = end_s

    def stop(self, node: SimulatedNode) -> None:
        """Stop a node in good order."""
        for peer, data in node.last_words.items():
            self.carry(node, peer, data)
        self.nodes.remove(node)
