"""Multicast doors and their interfaces, as far as one machine can show it (see tests/e2e/test_laptops.py)."""

from __future__ import annotations

import logging
import socket

import pytest
import trio
from rigs.patience import HANG_S

from router.service import multicast
from router.service.contract import Came
from router.service.doors import DoorError, Doors
from router.service.interfaces import gateways, interfaces
from router.service.roles.discovery import Interfaces

HEADS = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
ROUTES = HEADS + (
    "wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n"
    "wlan0\t00000000\tFE01A8C0\t0003\t0\t0\t700\t00000000\t0\t0\t0\n"
    "eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
    "eth0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
    "tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000000\t0\t0\t0\n"
)
ARP = (
    "IP address       HW type     Flags       HW address            Mask     Device\n"
    "192.168.1.1      0x1         0x2         02:fc:00:00:00:05     *        wlan0\n"
    "10.0.0.1         0x1         0x0         00:00:00:00:00:00     *        eth0\n"
)
WLAN = ("wlan0 192.168.1.1", bytes.fromhex("02fc00000005"))


def test_the_gateway_of_an_interface_is_the_best_default_route_by_its_link_layer_address() -> None:
    assert gateways(ROUTES, ARP, {}) == {"wlan0": WLAN, "eth0": ("eth0 10.0.0.1", b"")}


def test_a_gateway_that_the_system_has_forgotten_is_the_one_it_was() -> None:
    known = {"eth0 10.0.0.1": b"\x02known", "wlan0 192.168.1.1": b"\x02other"}
    assert gateways(ROUTES, ARP, known) == {"wlan0": WLAN, "eth0": ("eth0 10.0.0.1", b"\x02known")}
    assert gateways(HEADS, ARP, known) == {}


def test_the_interfaces_of_this_machine_have_indexes_flags_and_addresses() -> None:
    found = {one.name: one for one in interfaces({})}
    assert {one.index: one.name for one in found.values()} == dict(socket.if_nameindex())
    assert "loopback" in found["lo"].flags
    assert all(one.is_loopback for one in found["lo"].addresses)


def doors() -> Doors:
    async def came(came: Came) -> None:
        raise AssertionError(came)

    async def dial() -> None:
        raise AssertionError

    return Doors(came, lambda changed: None, dial, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "url",
    [
        "multicast://239.0.0.1:4100",
        "multicast://239.0.0.1,[ff12::1]",
        "multicast://10.0.0.1,[ff12::1]:4100",
        "multicast://239.0.0.1,[fe80::1]:4100",
        "multicast://239.0.0.1,[ff12::1]:0",
        "multicast://239.0.0.1,[ff12::1]:70000",
    ],
)
async def test_a_door_that_names_no_groups_is_refused(url: str, nursery: trio.Nursery) -> None:
    with pytest.raises(DoorError, match=r'its door "lan" cannot be opened at multicast://'):
        await doors().open(nursery, {"lan": url})


async def test_where_a_place_cannot_be_opened_it_is_tried_again_and_nothing_ends(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interface has gone between its listing and its use; datagrams written there are lost, as anywhere on their
    way."""
    monkeypatch.setattr(multicast, "AGAIN_S", 0.0)
    caplog.set_level(logging.INFO)
    changes, changed = trio.open_memory_channel[Interfaces](1)

    async def heard(came: Came) -> None:
        raise AssertionError(came)

    url = "multicast://239.0.0.1,[ff12::1]:4100"
    door = multicast.MulticastDoor("lan", url, heard, lambda came, mono_s: True, changes.send_nowait)
    nursery.start_soon(door.run)
    with trio.fail_after(HANG_S):
        first = await changed.receive()
        assert first.door == "lan" and any(one.name == "lo" for one in first.interfaces)
        door.attend((9_999,))
        door.write("*%9999", b"to nobody")
        door.write("10.0.0.1%9998:1", b"to nowhere")
        while caplog.text.count("not at interface 9999, IPv4") < 3 or "interface 9999, IPv6" not in caplog.text:
            await trio.lowlevel.checkpoint()
        door.attend(())
    nursery.cancel_scope.cancel()
