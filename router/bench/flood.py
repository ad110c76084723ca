"""The bench's flood of datagrams on a local network: one process on a machine of its own, which every node there hears.

It sends in turn forged advertisements, valid ones of strangers from an address outside this network, expired ones, and
ones cut short; or, if it is to name nodes, valid advertisements of ever new keys, and between them such as name one of
these nodes and are not signed by it. All but those from outside come from many addresses of the network, so that a
node's bound for a single source does not protect it. It takes only the CPU that others leave.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address
from itertools import cycle

from router.core.wire.address import IpAddress
from router.core.wire.advert import make_advertisement
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min

GROUP, PORT = "239.255.85.80", 4100
NICE = 19
VARIANTS = 500
STRANGERS = 50
TURN_S = 0.005
LATE_S = 0.1
"""Seconds after which unsent datagrams are not made up for."""


@dataclass
class Flood:
    """The task of the process; passed as JSON. `own`: the machine's own address, by which datagrams leave it;
    `sources`: its addresses in the network; `foreign`: its address outside the network; `named`: the keys of nodes that
    it names."""

    own: str
    sources: list[str]
    foreign: str
    per_s: float
    named: list[str]


def _advertised(key: SigningKey, expires_s: float) -> bytes:
    here = [IpAddress(IPv4Address("0.0.0.0"), PORT)]
    return make_advertisement(
        key, here, rev=int(time.time() * 1000), ttl_s=30, expiry_min=expiry_min(expires_s)
    ).message


def _datagrams() -> list[tuple[bytes, bytes, bytes, bytes]]:
    """Return the datagrams to send in turn: forged, foreign, expired, cut short."""
    keys = [SigningKey(os.urandom(32)) for _ in range(STRANGERS)]
    valid = [_advertised(key, time.time() + 600) for key in keys]
    stale = [_advertised(key, time.time() - 600) for key in keys]
    made = []
    for number in range(VARIANTS):
        one = valid[number % STRANGERS]
        signed_at = one.index(b"\x63sig\x58\x40") + 6
        forged = one[:signed_at] + os.urandom(64) + one[signed_at + 64 :]
        made.append((forged, one, stale[number % STRANGERS], one[: 2 + number % (len(one) - 2)]))
    return made


def _announcements(named: list[str]) -> Iterator[bytes]:
    """Yield valid advertisements of ever new keys, each followed by one that names a node."""
    for name in cycle(named):
        key = SigningKey(os.urandom(32))
        yield (one := _advertised(key, time.time() + 600))
        yield one.replace(key.public, bytes.fromhex(name))


def _turns(task: Flood) -> Iterator[tuple[socket.socket, bytes]]:
    """Yield the datagrams, each with the socket that sends it."""
    near, foreign = cycle([_socket(one, task.own) for one in task.sources]), _socket(task.foreign, task.own)
    if task.named:
        yield from zip(near, _announcements(task.named), strict=False)
    for four in cycle(_datagrams()):
        yield from ((foreign if at == 1 else next(near), data) for at, data in enumerate(four))


def _socket(source: str, own: str) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind((source, 0))
    made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(own))
    made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
    made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
    return made


def flood(task: Flood) -> dict[str, float]:
    """Flood from the first line of standard input to the second."""
    turns, to = _turns(task), (GROUP, PORT)
    sock, data = next(turns)
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.readline()
    over = threading.Thread(target=sys.stdin.readline, daemon=True)
    over.start()
    began, cpu_s, sent, size = time.monotonic(), time.process_time(), 0, 0
    due = 0.0
    while over.is_alive():
        time.sleep(TURN_S)
        due = max(due, (time.monotonic() - began - LATE_S) * task.per_s)
        while due < (time.monotonic() - began) * task.per_s:
            sock.sendto(data, to)
            due, sent, size = due + 1, sent + 1, size + len(data)
            sock, data = next(turns)
    took = time.monotonic() - began
    return {
        "seconds": took,
        "datagrams_per_s": sent / took,
        "mbit_per_s": size * 8e-6 / took,
        "attackers_cores": (time.process_time() - cpu_s) / took,
    }


if __name__ == "__main__":
    os.nice(NICE)
    print(json.dumps(flood(Flood(**json.loads(sys.argv[1])))), flush=True)
