"""Transport addresses: kinds, texts, URLs, malformed ones, and who may name which."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.core import ADDRESSES

from router.core.wire.address import (
    ADDRESSES_MAX,
    AddressSource,
    IpAddress,
    NamedAddress,
    Reach,
    TransportAddress,
    WebSocketAddress,
    encoded_addresses,
    ip_address_of,
    leads_back,
    network_text,
    parse_address,
    public_prefix,
    reach_of,
    read_address,
    read_addresses,
    refusal_of,
)
from router.core.wire.codec import Malformed, decode, encode
from router.core.wire.reasons import ADVERT_ADDRESS
from router.core.wire.text import BadText

FOUR, SIX, NAMED, WEB = ADDRESSES
NO_NAME = "is not a name that DNS knows (letters, digits, hyphens and dots)"


def through_cbor(addresses: tuple[TransportAddress, ...]) -> tuple[TransportAddress, ...]:
    return read_addresses(decode(encode(encoded_addresses(addresses)), 64), "addr")


@pytest.mark.parametrize(
    ("ip", "network"),
    [("192.0.2.77", "192.0.2.0/24"), ("2001:db8:1:2ff::9", "2001:db8:1:200::/56"), ("fe80::9%3", "fe80::/56")],
)
def test_the_network_of_an_address_as_text(ip: str, network: str) -> None:
    assert network_text(ip_address(ip)) == network


@pytest.mark.parametrize(
    ("host", "own", "is_ours"),
    [
        ("localhost", "127.0.0.1", True), ("::1", "", True), ("127.0.0.2", "0.0.0.0", True), ("::1", "::", True),
        ("10.0.0.1", "10.0.0.1", True), ("node.example", "node.example", True), ("10.0.0.1", "0.0.0.0", False),
        ("localhost", "10.0.0.1", False), ("node.example", "", False),
    ],
)  # fmt: skip
def test_what_is_dialled_here_may_lead_back(host: str, own: str, is_ours: bool) -> None:
    assert leads_back(host, own) is is_ours


def test_exact_values() -> None:
    assert encoded_addresses([FOUR]) == [1, b"\xc6\x33\x64\x07", 4101]
    assert encoded_addresses([SIX]) == [1, IPv6Address("2001:db8::7").packed, 4101]
    assert encoded_addresses([NAMED]) == [3, "router.example.org", 443]
    assert encoded_addresses([WEB]) == [4, "wss://example.org/router"]
    assert encoded_addresses(ADDRESSES) == [5, [one.encoded() for one in ADDRESSES]]


@pytest.mark.parametrize(
    ("address", "text", "url"),
    (
        (FOUR, "198.51.100.7:4101", "tls://198.51.100.7:4101"),
        (SIX, "[2001:db8::7]:4101", "tls://[2001:db8::7]:4101"),
        (NAMED, "router.example.org:443", "tls://router.example.org:443"),
        (WEB, "wss://example.org/router", "wss://example.org/router"),
        (IpAddress(IPv6Address("fe80::1%eth0"), 1), "[fe80::1%eth0]:1", "tls://[fe80::1%eth0]:1"),
        (WebSocketAddress("ws://[2001:db8::7]:80"), "ws://[2001:db8::7]:80", "ws://[2001:db8::7]:80"),
    ),
)
def test_texts_and_urls(address: TransportAddress, text: str, url: str) -> None:
    assert (str(address), address.url) == (text, url)
    assert parse_address(url) == address


@pytest.mark.parametrize(
    ("url", "ip"),
    (
        ("tls://198.51.100.7:4101", FOUR),
        ("ws://198.51.100.7/link?host=example.org", IpAddress(IPv4Address("198.51.100.7"), 80)),
        ("wss://[2001:db8::7]", IpAddress(IPv6Address("2001:db8::7"), 443)),
        (f"wss://198.51.100.7:4101/{'x' * 300}", FOUR),
        ("wss://example.org/link", None),
        ("tls://example.org:1", None),
    ),
)
def test_ip_address_of_a_url_to_dial(url: str, ip: IpAddress | None) -> None:
    assert ip_address_of(url) == ip


@pytest.mark.parametrize("url", ("unix:///run/s", "wss://999.1.1.1", "wss:"))
def test_ip_address_of_no_address_for_others_is_an_error(url: str) -> None:
    with pytest.raises(BadText, match="is not an address for others"):
        ip_address_of(url)


def test_parse_address_refuses_a_url_that_no_link_can_hold() -> None:
    with pytest.raises(BadText, match="not a text of 1 to 253 bytes"):
        parse_address(f"wss://example.org/{'x' * 300}")


IPS = st.ip_addresses()
PORTS = st.integers(1, 65_535)
LABELS = st.from_regex(r"[a-z]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
NAMES = st.lists(LABELS, min_size=1, max_size=4).map(".".join)
URLS = st.from_regex(r"wss?://[a-z]{1,20}(:[1-9][0-9]{1,3})?(/[!-\"$-~]{0,40})?", fullmatch=True)
PLAIN: st.SearchStrategy[TransportAddress] = st.one_of(
    st.builds(IpAddress, IPS, PORTS),
    st.builds(NamedAddress, NAMES, PORTS),
    st.builds(WebSocketAddress, URLS),
)  # fmt: skip


@given(st.lists(PLAIN, min_size=1, max_size=ADDRESSES_MAX))
def test_round_trips(addresses: list[TransportAddress]) -> None:
    assert through_cbor(tuple(addresses)) == tuple(addresses)
    assert [parse_address(one.url) for one in addresses] == addresses


def test_a_zone_is_not_encoded() -> None:
    assert encoded_addresses([IpAddress(IPv6Address("fe80::1%eth0"), 1)]) == [1, IPv6Address("fe80::1").packed, 1]


@pytest.mark.parametrize("unknown", ([0], [2, bytes(4), 1], [6], [1 << 40, "x", {"y": []}]))
def test_an_unknown_kind_is_ignored(unknown: list[Any]) -> None:
    assert read_addresses(unknown, "addr") == ()
    assert read_addresses([5, [unknown, FOUR.encoded(), unknown]], "addr") == (FOUR,)
    with pytest.raises(Malformed, match="of a kind that is not known"):
        read_address(unknown, "at")


@pytest.mark.parametrize(
    ("value", "cause"),
    (
        ("192.0.2.1", "is not an address"),
        ([], "is not an address"),
        (["1", b"\x01\x01\x01\x01", 1], "is not an unsigned number"),
        ([True, b"\x01\x01\x01\x01", 1], "is not an unsigned number"),
        ([1, b"\x01\x01\x01", 1], "3 bytes instead of 4 to 16"),
        ([1, bytes(5), 1], "an IP address of 5 bytes"),
        ([1, "1.1.1.1", 1], "is not a byte string"),
        ([1, bytes(4), 0], "the port of addr is 0; ports go from 1 to 65535"),
        ([1, bytes(4), 1 << 16], "is not an unsigned number up to 65535"),
        ([1, bytes(4)], "has 2 items"),
        ([1, bytes(4), 1, 1], "has 4 items"),
        ([3, "", 1], "is not a text of 1 to 253 bytes"),
        ([3, "x" * 254, 1], "is not a text of 1 to 253 bytes"),
        ([3, b"example.org", 1], "is not a text of 1 to 253 bytes"),
        ([3, "exam ple.org", 1], "is not a name that DNS knows"),
        ([3, "127.1", 1], "is not a name that DNS knows"),
        ([3, "2130706433", 1], "is not a name that DNS knows"),
        ([3, "0x7f000001", 1], "is not a name that DNS knows"),
        ([3, "192.0.2.1", 1], "is not a name that DNS knows"),
        ([3, "-x.org", 1], "is not a name that DNS knows"),
        ([3, "x..org", 1], "is not a name that DNS knows"),
        ([3, "x" * 64 + ".org", 1], "is not a name that DNS knows"),
        ([3, "münchen.example", 1], "is not a name that DNS knows"),
        ([4, "https://example.org"], "no other machine reaches a router by that scheme"),
        ([4, "tls://example.org:1"], "is not the URL of a WebSocket"),
        ([4, "wss://user@example.org"], "is not the URL of a host"),
        ([4, "wss://example.org/\x00"], "is not the URL of a host"),
        ([4, "wss://example.org/#x"], "is not the URL of a host"),
        ([4, "wss://example.org:0"], "is not the URL of a host"),
        ([4, "wss://example.org:65536"], "port 65536"),
        ([4, "wss://127.1/"], "its host is not a name that DNS knows"),
        ([4, "wss://[192.0.2.1]/"], "its host is not an IPv4 address, an IPv6 address in brackets, or a name"),
        ([4, "wss://" + "x" * 250], "is not a text of 1 to 253 bytes"),
        ([4, "wss://example.org", 1], "has 3 items"),
        ([5, []], "has 0 items; 1 to 8"),
        ([5, [FOUR.encoded()] * 9], "has 9 items; 1 to 8"),
        ([5, [[5, [FOUR.encoded()]]]], "is a list of addresses where one address stands"),
        ([5, FOUR.encoded()], "is not an address"),
        ([5, [FOUR.encoded()], 1], "has 3 items"),
    ),
    ids=repr,
)  # fmt: skip
def test_malformed(value: Any, cause: str) -> None:
    with pytest.raises(Malformed) as caught:
        read_addresses(value, "addr")
    assert cause in str(caught.value)


@pytest.mark.parametrize(
    ("text", "cause"),
    (
        ("example.org:4101", "it is not the URL of a host"),
        ("tls://example.org", "it needs a port, and nothing behind it"),
        ("tls://example.org:1/x", "it needs a port, and nothing behind it"),
        ("tls://:4101", "it is not the URL of a host"),
        ("tls://2130706433:1", f"its host {NO_NAME}"),
        ("tls://[::1", "it is not the URL of a host"),
        ("tls://[:::]:1", f"its host {NO_NAME}"),
        ("unix:///run/router", "it is not the URL of a host"),
        ("udp://example.org:1", "no other machine reaches a router by that scheme"),
        ("x" * 100_000, "it is not the URL of a host"),
        ("", "it is not the URL of a host"),
    ),
)
def test_texts_that_are_no_address(text: str, cause: str) -> None:
    with pytest.raises(BadText) as caught:
        parse_address(text)
    said = str(caught.value)
    assert said.startswith(f'"{text[:100]}" is not an address for others: {cause}. Write tls://host:4101, ')
    assert len(said) < 400


def test_our_own_mistakes_are_found_before_they_are_sent() -> None:
    for wrong in ([], [FOUR] * 9, [IpAddress(IPv4Address("192.0.2.1"), 0)], [NamedAddress("127.1", 1)]):
        with pytest.raises(ValueError, match=r".+"):
            encoded_addresses(wrong)


# -- who may name what -------------------------------------------------------------------------------------

REACHES = {
    "198.51.100.7": Reach.PUBLIC, "2001:db8::7": Reach.PUBLIC, "::ffff:198.51.100.7": Reach.PUBLIC,
    "10.1.2.3": Reach.PRIVATE, "172.31.255.255": Reach.PRIVATE, "192.168.0.1": Reach.PRIVATE,
    "100.127.0.1": Reach.PRIVATE, "fd00::1": Reach.PRIVATE, "::ffff:10.0.0.1": Reach.PRIVATE,
    "64:ff9b::10.0.0.1": Reach.PRIVATE, "2002:a00:1::1": Reach.PRIVATE, "fec0::1": Reach.PRIVATE,
    "172.32.0.1": Reach.PUBLIC, "100.128.0.1": Reach.PUBLIC,
    "169.254.1.1": Reach.LINK_LOCAL, "fe80::1": Reach.LINK_LOCAL, "fe80::1%eth0": Reach.LINK_LOCAL,
    "127.0.0.1": Reach.LOOPBACK, "127.255.1.1": Reach.LOOPBACK, "::1": Reach.LOOPBACK,
    "::ffff:127.0.0.1": Reach.LOOPBACK, "64:ff9b::7f00:1": Reach.LOOPBACK,
    "0.0.0.0": Reach.UNSPECIFIED, "::": Reach.UNSPECIFIED,
    "224.0.0.1": Reach.NOBODY, "239.255.85.80": Reach.NOBODY, "ff12::5550:5359": Reach.NOBODY,
    "255.255.255.255": Reach.NOBODY, "240.0.0.1": Reach.NOBODY, "0.1.2.3": Reach.NOBODY,
    "::ffff:0.0.0.0": Reach.NOBODY, "::ffff:224.0.0.1": Reach.NOBODY, "::7f00:1": Reach.NOBODY, "100::1": Reach.NOBODY,
}  # fmt: skip
NAMES_OF = {
    "example.org": Reach.PUBLIC, "example.org.": Reach.PUBLIC, "localhost.example.org": Reach.PUBLIC,
    "localhost": Reach.LOOPBACK, "LocalHost.": Reach.LOOPBACK, "x.localhost": Reach.LOOPBACK,
    "nas": Reach.PRIVATE, "nas.local": Reach.PRIVATE, "db.internal": Reach.PRIVATE, "a.home.arpa": Reach.PRIVATE,
}  # fmt: skip
MAY_NAME = {
    Reach.PUBLIC: {*AddressSource},
    Reach.PRIVATE: {*AddressSource} - {AddressSource.ANYBODY},
    Reach.LINK_LOCAL: {AddressSource.SENDER},
    Reach.LOOPBACK: set(),
    Reach.UNSPECIFIED: {AddressSource.DATAGRAM},
    Reach.NOBODY: set(),
}


def test_who_may_name_what() -> None:
    for (host, reach), source in product((REACHES | NAMES_OF).items(), AddressSource):
        address = NamedAddress(host, 4101) if host in NAMES_OF else IpAddress(ip_address(host), 4101)
        assert reach_of(address.host) is reach, host
        assert (refusal_of(address, source) is None) == (source in MAY_NAME[reach]), (host, source)
        on_loopback = refusal_of(address, source, on_loopback=True) is None
        assert on_loopback == (source in MAY_NAME[reach] or reach is Reach.LOOPBACK), (host, source)


def test_a_websocket_is_judged_by_its_host() -> None:
    for url, reach in (
        ("wss://example.org/x", Reach.PUBLIC),
        ("wss://192.168.1.1/x", Reach.PRIVATE),
        ("ws://[::1]:80/x", Reach.LOOPBACK),
        ("wss://localhost", Reach.LOOPBACK),
    ):
        address = parse_address(url)
        assert reach_of(address.host) is reach


@pytest.mark.parametrize(
    ("url", "prefix"),
    (
        ("tls://198.51.100.7:1", b"\xc6\x33\x64"),
        ("tls://[::ffff:198.51.100.9]:1", b"\xc6\x33\x64"),
        ("wss://198.51.100.7/x", b"\xc6\x33\x64"),
        ("tls://[2001:db8:1:2fff::7]:1", bytes.fromhex("20010db800012f")),
        ("tls://example.org:1", None),
        ("tls://10.0.0.1:1", None),
        ("tls://[::1]:1", None),
        ("tls://[fe80::1]:1", None),
    ),
)
def test_the_network_of_a_public_address(url: str, prefix: bytes | None) -> None:
    assert public_prefix(parse_address(url)) == prefix


def test_the_reason_and_its_sentence() -> None:
    reason, said = refusal_of(parse_address("tls://10.1.2.3:4101"), AddressSource.ANYBODY) or (None, "")
    assert reason is ADVERT_ADDRESS and (int(reason), reason.word) == (201, "advert:address")
    assert said == (
        "10.1.2.3:4101 lies in a private network, and counts only if the LAN, an invitation, an app or the operator "
        "names it; name an address in node.advertise at which others reach that node"
    )


@given(IPS, st.sampled_from(AddressSource))
def test_nobody_leads_us_to_ourselves(ip: IPv4Address | IPv6Address, source: AddressSource) -> None:
    """An address that may be dialled at the word of others is never loopback, multicast or unspecified, in any
    disguise."""
    within = ip if ip.version == 4 else ip.ipv4_mapped or ip
    if refusal_of(IpAddress(ip, 1), source) is None and not ip.is_unspecified:
        assert not (within.is_loopback or within.is_multicast or within.is_unspecified)
