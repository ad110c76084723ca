"""An attacker on a local network: valid advertisements in the name of any addresses, IPv4 or IPv6.

    python lan_attacker.py '{"own": "10.64.1.1", "sources": ["10.64.9.1", "fe80::9"], "port": 4101, "per_s": 20}'

They are of ever new keys, at `"ports"` ports in turn, or with `"keys": 400` of so many in turn, the oldest of which
gives way to a new one ten times
a second, as often as a node gives places. It sends until it is killed.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from itertools import count, cycle

from router.core.wire.address import IpAddress, parse_address
from router.core.wire.advert import make_advertisement
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min

GROUP, GROUP_SIX, PORT = "239.255.85.80", "ff12::5550:5359", 4100
INTERFACE = "eth0"
IP_TRANSPARENT, IPV6_TRANSPARENT = 19, 75  # Linux's numbers: send from addresses that are not this machine's
NEW_EACH_S, TURN_S = 0.1, 0.005


def advertisement(key: SigningKey, port: int) -> bytes:
    here = parse_address(f"tls://0.0.0.0:{port}")
    assert isinstance(here, IpAddress)
    now_s = time.time()
    return make_advertisement(key, [here], rev=int(now_s * 1000), ttl_s=30, expiry_min=expiry_min(now_s + 600)).message


def sender(source: str, own: str) -> tuple[socket.socket, tuple[str, int] | tuple[str, int, int, int]]:
    """Return a socket with that source, and where it sends."""
    if ":" in source:
        index = socket.if_nametoindex(INTERFACE)
        made = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        made.setsockopt(socket.IPPROTO_IPV6, IPV6_TRANSPARENT, 1)
        made.bind((source, 0, 0, index))
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
        return made, (GROUP_SIX, PORT, 0, index)
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setsockopt(socket.IPPROTO_IP, IP_TRANSPARENT, 1)
    made.bind((source, 0))
    made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(own))
    return made, (GROUP, PORT)


def datagrams(port: int, ports: int, keys: int) -> Iterator[bytes]:
    """Yield the datagrams in turn."""
    if not keys:
        yield from (advertisement(SigningKey(os.urandom(32)), port + number % ports) for number in count())
    held = [advertisement(SigningKey(os.urandom(32)), port) for _ in range(keys)]
    oldest, new_s = 0, time.monotonic()
    for turn in count():
        if time.monotonic() >= new_s:
            held[oldest], new_s = advertisement(SigningKey(os.urandom(32)), port), new_s + NEW_EACH_S
            oldest = (oldest + 1) % keys
        yield held[turn % keys]


def main(own: str, sources: list[str], port: int, per_s: float, ports: int = 1, keys: int = 0) -> None:
    senders, began_s = cycle([sender(one, own) for one in sources]), time.monotonic()
    for sent, data in enumerate(datagrams(port, ports, keys), 1):
        away, to = next(senders)
        away.sendto(data, to)
        while sent > (time.monotonic() - began_s) * per_s:
            time.sleep(min(TURN_S, 1 / per_s))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
