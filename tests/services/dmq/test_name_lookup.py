"""Names of other nodes: SRV records as a server answers them, and what cannot be looked up."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from dns.flags import AA
from dns.message import from_wire, make_response
from dns.rcode import NXDOMAIN, SERVFAIL
from dns.rdatatype import SRV
from dns.resolver import Resolver
from dns.rrset import from_text_list

from services.dmq.core.peers.topology import SRV_SERVICE, AccessPoint
from services.dmq.core.protocols.peer_sharing import PeerAddress
from services.dmq.name_lookup import ADDRESSES_MAX, SRV_MAX, looked_up

GUIDES = "_mithril._tcp"
POOL = AccessPoint("pool.example.", 0)
Zone = Mapping[str, list[str] | None]
"""The SRV records of names; None: the server fails."""


@contextmanager
def answering(zone: Zone) -> Iterator[Resolver]:
    """Yield what asks a DNS server that knows these names alone."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=_serve, args=(server, zone))
        thread.start()
        resolver = Resolver(configure=False)
        resolver.nameservers, resolver.port = ["127.0.0.1"], server.getsockname()[1]
        try:
            yield resolver
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
                last.sendto(b"", server.getsockname())
            thread.join()


def _serve(server: socket.socket, zone: Zone) -> None:
    while True:
        data, where = server.recvfrom(4096)
        if not data:
            return
        asked = from_wire(data)
        answer, [question] = make_response(asked), asked.question
        answer.flags |= AA
        name = question.name.to_text()
        if name not in zone:
            answer.set_rcode(NXDOMAIN)
        elif (records := zone[name]) is None:
            answer.set_rcode(SERVFAIL)
        elif records and question.rdtype == SRV:
            answer.answer.append(from_text_list(question.name, 60, "IN", "SRV", records))
        server.sendto(answer.to_wire(max_size=65_535), where)


def found(zone: Zone, *services: str, point: AccessPoint = POOL) -> list[str]:
    with answering(zone) as resolver:
        addresses = looked_up(point, services or (SRV_SERVICE,), lambda: resolver).addresses
        return [str(one) for one in addresses]


def test_a_name_without_a_port_is_where_its_srv_records_say_the_preferred_ones_first() -> None:
    records = ["20 0 7 127.0.0.1.", "10 5 6162 localhost.", "10 50 6161 localhost."]
    ports = [one.rsplit(":", 1)[1] for one in found({f"{SRV_SERVICE}.pool.example.": records})]
    assert [port for at, port in enumerate(ports) if port not in ports[:at]] == ["6161", "6162", "7"]


@pytest.mark.parametrize(
    ("zone", "cause"),
    [({}, "no SRV record under"), ({f"{SRV_SERVICE}.pool.example.": []}, "no SRV record under"),
     ({f"{SRV_SERVICE}.pool.example.": None}, "no name server answers"),
     ({f"{SRV_SERVICE}.pool.example.": ["0 0 0 ."]}, "name no host"),
     ({f"{SRV_SERVICE}.pool.example.": ["0 0 6161 nobody.invalid."]}, "")],
    ids=["unknown", "no records", "the server fails", "no such service here", "an unknown host"],
)  # fmt: skip
def test_a_name_that_cannot_be_looked_up_has_no_addresses(zone: Zone, cause: str) -> None:
    with answering(zone) as resolver:
        looked = looked_up(POOL, (SRV_SERVICE,), lambda: resolver)
    assert looked.addresses == () and cause in looked.cause
    assert looked.cause.startswith("no address is known for it (")


def test_the_services_are_asked_in_order_until_one_has_records() -> None:
    guides = {f"{GUIDES}.pool.example.": ["0 0 6161 127.0.0.1."]}
    assert found(guides) == []
    assert found(guides, SRV_SERVICE, GUIDES) == ["127.0.0.1:6161"]
    both = {**guides, f"{SRV_SERVICE}.pool.example.": ["0 0 6162 127.0.0.1."]}
    assert found(both, SRV_SERVICE, GUIDES) == ["127.0.0.1:6162"]


def test_a_host_that_is_unknown_leaves_the_others_of_the_name() -> None:
    records = ["0 0 1 nobody.invalid.", "1 0 6161 127.0.0.1."]
    assert found({f"{SRV_SERVICE}.pool.example.": records}) == ["127.0.0.1:6161"]


def test_of_many_records_the_first_are_used() -> None:
    records = [f"{priority} 0 {1000 + priority} 127.0.0.1." for priority in range(SRV_MAX + 8)]
    addresses = found({f"{SRV_SERVICE}.pool.example.": records})
    assert addresses == [f"127.0.0.1:{1000 + priority}" for priority in range(ADDRESSES_MAX)]


def test_a_name_with_a_port_needs_no_srv_records() -> None:
    assert PeerAddress("127.0.0.1", 6161) in looked_up(AccessPoint("localhost.", 6161), (SRV_SERVICE,)).addresses
