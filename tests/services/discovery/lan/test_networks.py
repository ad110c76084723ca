"""The network of each interface, and the names of networks (R-D18)."""

from __future__ import annotations

from ipaddress import ip_address, ip_interface

import pytest
from blake3 import blake3
from msgspec.structs import replace
from samples.lan import interface

from router.service.roles.discovery import Interface
from services.discovery.core.lan.networks import ALLOWED, EVERYWHERE, Network, Permit, is_local, network_of, on_link


def the_network(one: Interface) -> Network:
    found = network_of(one)
    assert found is not None
    return found


GATEWAY = bytes.fromhex("02fc00000005")


def test_a_network_is_named_by_its_gateway_whatever_leads_there() -> None:
    wired, wireless = interface(1, gateway=GATEWAY), interface(7, index=5, name="wlan0", gateway=GATEWAY)
    assert (
        the_network(wired).id == the_network(wireless).id == blake3(b"upsycle network 1" + GATEWAY).digest()[:8].hex()
    )
    assert (the_network(wired).name, the_network(wireless).name) == ("eth0 10.0.0.0/24", "wlan0 10.0.0.0/24")


def test_without_a_gateway_it_is_named_by_interface_and_prefix() -> None:
    one = the_network(interface(1))
    assert one == the_network(interface(2)) == the_network(interface(1, more="fd00::1/64"))
    assert one.id != the_network(interface(1, name="eth1")).id
    assert one.id != the_network(replace(interface(1), addresses=(ip_interface("10.0.1.1/24"),))).id
    assert the_network(Interface(2, "eth0", addresses=(ip_interface("fe80::1/64"),))).name == "eth0 fe80::/64"


def test_a_network_whose_gateway_is_not_resolved_yet_has_no_name_so_nothing_is_allowed_there() -> None:
    one = replace(interface(1), gateway_place="eth0 10.0.0.254")
    assert network_of(one) is None and not Permit(ALLOWED, frozenset((the_network(interface(1)).id,))).allows(one)
    assert Permit(EVERYWHERE).allows(one)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"up", "running", "multicast", "broadcast"}, True),
        ({"up", "multicast", "broadcast"}, False),
        ({"running", "multicast"}, False),
        ({"up", "running", "broadcast"}, False),
        ({"up", "running", "multicast", "loopback"}, False),
        ({"up", "running", "multicast", "pointopoint"}, False),
    ],
)
def test_an_interface_is_of_a_network_if_it_is_up_multicast_and_neither_loopback_nor_point_to_point(
    flags: set[str], expected: bool
) -> None:
    assert is_local(replace(interface(1), flags=frozenset(flags))) is expected
    assert not is_local(replace(interface(1), flags=frozenset(flags), addresses=()))


@pytest.mark.parametrize(
    ("source", "expected"),
    [("10.0.0.77", True), ("10.0.1.1", False), ("fe80::77", True), ("fd00::1", False), ("224.0.0.1", False)],
)
def test_a_source_is_on_the_link_if_a_prefix_of_the_interface_holds_it(source: str, expected: bool) -> None:
    assert on_link(interface(1), ip_address(source)) is expected
