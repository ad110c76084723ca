"""Announcements of Linux about addresses and routes: which are changes; and a real one, on a machine of its own."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
from ipaddress import ip_address

import pytest
from rigs.machines import bridged

from router.transport.network_changes import Announcements

NEW_ADDRESS, DELETED_ADDRESS, NEW_ROUTE, DELETED_ROUTE, NEW_LINK = 20, 21, 24, 25, 16
GLOBAL, LINK = 0, 253
TENTATIVE = 0x40
MAIN, LOCAL = 254, 255
UNICAST, MULTICAST = 1, 5
CLONED = 0x200


def message(kind: int, body: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def address(text: str, *, kind: int = NEW_ADDRESS, flags: int = 0, scope: int = GLOBAL) -> bytes:
    ip = ip_address(text)
    family = socket.AF_INET if ip.version == 4 else socket.AF_INET6
    head = struct.pack("=BBBBI", family, 24, flags, scope, 3)
    return message(kind, head + attribute(1, ip.packed) + attribute(6, bytes(16)))


def route(
    text: str = "", *, kind: int = NEW_ROUTE, table: int = MAIN, scope: int = 0, form: int = UNICAST, flags: int = 0
) -> bytes:
    destination = attribute(1, ip_address(text).packed) if text else b""
    return message(kind, struct.pack("=BBBBBBBBI", 2, 0, 0, 0, table, 3, scope, form, flags) + destination)


CHANGES = {
    "a new address": address("198.51.100.7"),
    "a new address of IPv6": address("2001:db8::7"),
    "an address that is gone": address("198.51.100.7", kind=DELETED_ADDRESS),
    "a default route": route(),
    "a default route that is gone": route(kind=DELETED_ROUTE),
    "a route of a VPN's table": route("203.0.113.0", table=51),
}
OTHERS = {
    "an address that leads to the next cable only": address("fe80::1", scope=LINK),
    "an address that may be another machine's": address("2001:db8::7", flags=TENTATIVE),
    "a route to this machine": route("198.51.100.7", table=LOCAL),
    "a route to the next cable": route("198.51.100.0", scope=LINK),
    "a route to neighbours on a cable": route("fe80::"),
    "a route of multicast": route("ff00::", form=MULTICAST),
    "an entry of the cache": route("2001:db8::9", flags=CLONED),
    "an interface": message(NEW_LINK, bytes(16)),
    "nothing": b"",
    "half a head": address("198.51.100.7")[:10],
    "half a message": address("198.51.100.7")[:20],
    "a message without a body": message(NEW_ADDRESS, b""),
    "a length of nothing": struct.pack("=IHHII", 0, NEW_ADDRESS, 0, 0, 0),
}


@pytest.mark.parametrize("what", CHANGES)
def test_announcement_of_a_change_is_one(what: str) -> None:
    assert Announcements().is_change(CHANGES[what])


@pytest.mark.parametrize("what", OTHERS)
def test_announcement_of_anything_else_is_no_change(what: str) -> None:
    assert not Announcements().is_change(OTHERS[what])


def test_announcement_of_a_longer_life_of_an_address_is_no_change() -> None:
    found = Announcements()
    assert [found.is_change(address("2001:db8::7")) for _ in range(3)] == [True, False, False]
    assert found.is_change(address("2001:db8::7", kind=DELETED_ADDRESS)) and found.is_change(address("2001:db8::7"))


def test_announcements_in_one_datagram_are_all_read() -> None:
    found = Announcements()
    assert found.is_change(OTHERS["an interface"] + address("2001:db8::7") + address("2001:db8::8"))
    assert not found.is_change(address("2001:db8::8"))


WATCHER = """
import trio, trio.testing
from router.transport.network_changes import Announced, watch
async def tell(announced):
    while await announced.wait(1000):
        print("announced", flush=True)
async def main():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, lambda: print("changed", flush=True))
        nursery.start_soon(tell, Announced())
        await trio.testing.wait_all_tasks_blocked()
        print("watching", flush=True)
trio.run(main)
"""


def test_changes_of_an_address_and_of_an_interface_are_announced_on_a_real_machine() -> None:
    with bridged() as bridge:
        machine = bridge.machine()
        command = (*machine.enter, sys.executable, "-c", WATCHER)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watcher:
            try:
                assert watcher.stdout is not None
                read = iter(watcher.stdout.readline, "")
                assert "watching\n" in read
                machine.run("ip", "link", "set", "eth0", "mtu", "1400")
                assert "announced\n" in read
                for word in ("del", "add"):
                    machine.run("ip", "address", word, f"{machine.ip}/15", "dev", "eth0")
                    assert "changed\n" in read
            finally:
                watcher.kill()
