"""The machines of the rig reach each other over their cables, and nothing is left of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from rigs.machines import bridged


def carrier(text: str) -> bool:
    return "LOWER_UP" in text


def test_machines_reach_each_other_until_a_cable_is_pulled() -> None:
    with bridged() as bridge:
        one, two = bridge.machine(), bridge.machine()
        assert one.ip != two.ip and one.ip in one.run("ip", "-4", "address", "show", "eth0")
        assert f"{two.ip} dev eth0" in one.run("ip", "route", "get", two.ip)
        shown = ("ip", "link", "show", "eth0")
        assert carrier(one.run(*shown)) and carrier(two.run(*shown))
        two.pull()
        assert carrier(one.run(*shown)) and not carrier(two.run(*shown))
        two.plug()
        assert carrier(two.run(*shown))
        pids = one.pid, two.pid
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids), "the namespaces are gone with their holders"


def test_a_command_that_fails_on_a_machine_says_why() -> None:
    with bridged() as bridge, pytest.raises(Exception, match=r"^ip link show eth1: .*eth1"):
        bridge.machine().run("ip", "link", "show", "eth1")
