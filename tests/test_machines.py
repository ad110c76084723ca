"""The machines of the rig reach each other over their cables, and leave nothing behind."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

import pytest
from rigs.machines import bridged

from router.rig.machines import Bridge, NamespaceMachine
from router.rig.process import RigFailed


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


def test_in_a_network_that_is_split_only_the_machines_of_one_part_reach_each_other() -> None:
    with bridged() as bridge:
        one, two, three = (bridge.machine() for _ in range(3))
        bridge.split((two, three))
        assert knock(two, three) == "ECONNREFUSED", "it is there, and listens nowhere"
        assert knock(one, two) == "EHOSTUNREACH"
        assert carrier(one.run("ip", "link", "show", "eth0"))
        bridge.heal((two, three))
        assert knock(one, two) == "ECONNREFUSED"


def knock(one: NamespaceMachine, other: NamespaceMachine) -> str:
    """Return the result of connecting to a port where nobody listens."""
    script = "import errno, socket, sys; print(errno.errorcode[socket.socket().connect_ex((sys.argv[1], 9))])"
    return one.run(sys.executable, "-c", script, other.ip).strip()


def test_a_command_that_fails_on_a_machine_says_why() -> None:
    with bridged() as bridge, pytest.raises(Exception, match=r"^ip link show eth1: .*eth1"):
        bridge.machine().run("ip", "link", "show", "eth1")


def test_a_command_that_a_signal_ends_says_nothing_about_permissions() -> None:
    one = NamespaceMachine("198.18.1.1", ("sh", "-c", "kill -TERM $$"), 0, "port1", cast(Bridge, None))
    with pytest.raises(RigFailed, match=r"^ip link was ended by SIGTERM$"):
        one.run("ip", "link")
