"""An attacker on a local network: valid advertisements of ever new keys, in the name of any address.

    python lan_attacker.py '{"own": "10.64.1.1", "source": "10.64.9.1", "port": 4101, "per_s": 20}'

It sends until it is killed.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time

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


def main(own: str, source: str, port: int, per_s: float) -> None:
    away = sender(source, own)
    while True:
        away.sendto(advertisement(SigningKey(os.urandom(32)), port), GROUP)
        time.sleep(1 / per_s)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
