"""Machines in network namespaces of their own, joined by a bridge, with cables that can be pulled.

    with bridged() as bridge:
        one, two = bridge.machine(), bridge.machine()
        node.served_by = (*one.enter, *program("router"))    # any command runs on a machine so

Nothing outlasts this process, however it ends: a namespace is held by a process whose standard input is our pipe. No
rights are needed where users may have namespaces of their own; `why_not` explains why a system permits none.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Network

from router.rig.process import RigFailed

NETWORK = IPv4Network("198.18.0.0/15")
"""The addresses of machines count as public ones, and each lies in a /24 of its own."""
_SWITCH, _APART = "bridge", "apart"
_HOLD = ("sh", "-c", "echo held && exec cat")


@dataclass(frozen=True)
class NamespaceMachine:
    """A namespace with the interfaces `lo` and `eth0`. `enter`: the beginning of each command that runs there; `pid`:
    the process that holds it; `port`: the name of its cable at the bridge."""

    ip: str
    enter: tuple[str, ...]
    pid: int
    port: str
    bridge: Bridge

    def run(self, *command: str) -> str:
        """Run a command to its end there; return what it prints."""
        return _run(self.enter, *command)

    def deafen(self) -> None:
        """Let no multicast through to this machine; others still receive its own."""
        self.bridge.run("ip", "link", "set", self.port, "type", "bridge_slave", "mcast_flood", "off")

    def pull(self) -> None:
        """Pull the cable: both ends see that the carrier is gone."""
        self.bridge.run("ip", "link", "set", self.port, "down")

    def plug(self) -> None:
        """Put the cable back."""
        self.bridge.run("ip", "link", "set", self.port, "up")


class Bridge:
    """A switch, in a namespace of its own; `network`: where machines have their addresses."""

    def __init__(self, held: ExitStack, network: IPv4Network) -> None:
        self._held = held
        self._network = network
        self._count = 0
        pid = self._hold(("unshare", *_user_namespace(), "--net"))
        self._enter = _enter(pid, *(("--user",) if _user_namespace() else ()))
        for name in (_SWITCH, _APART):
            self.run("ip", "link", "add", name, "type", "bridge")
            self.run("ip", "link", "set", name, "up")

    def run(self, *command: str) -> str:
        """Run a command to its end at the switch; return what it prints."""
        return _run(self._enter, *command)

    def machine(self) -> NamespaceMachine:
        """Join a further machine."""
        self._count += 1
        port, ip = f"port{self._count}", str(self._network[self._count * 256 + 1])
        pid = self._hold((*self._enter, "unshare", "--net"))
        self.run("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        self.run("ip", "link", "set", port, "master", _SWITCH, "up")
        one = NamespaceMachine(ip, _enter(pid, *(("--user",) if _user_namespace() else ())), pid, port, self)
        one.run("ip", "address", "add", f"{ip}/{self._network.prefixlen}", "broadcast", "+", "dev", "eth0")
        for interface in ("lo", "eth0"):
            one.run("ip", "link", "set", interface, "up")
        return one

    def split(self, apart: Iterable[NamespaceMachine]) -> None:
        """Split the network in two: from now on the given machines reach each other, and the others each other. No
        machine sees that a cable is gone."""
        for one in apart:
            self.run("ip", "link", "set", one.port, "master", _APART)

    def heal(self, apart: Iterable[NamespaceMachine]) -> None:
        """Join these machines to the others again."""
        for one in apart:
            self.run("ip", "link", "set", one.port, "master", _SWITCH)

    def _hold(self, command: Sequence[str]) -> int:
        """Start the process that holds a namespace until its standard input ends; return its pid."""
        pipe = subprocess.PIPE
        process = subprocess.Popen([*command, *_HOLD], stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
        self._held.enter_context(process)  # closes its standard input, and waits for its end
        assert process.stdout is not None and process.stderr is not None
        if process.stdout.readline() != b"held\n":
            raise _failure(command, process.wait(), process.stderr.read().decode())
        return process.pid


class _Failed(Exception):
    """A command of the rig failed; the text is its output."""


def _user_namespace() -> tuple[str, ...]:
    return () if os.geteuid() == 0 else ("--user", "--map-root-user")


def _enter(pid: int, *more: str) -> tuple[str, ...]:
    return ("nsenter", f"--target={pid}", "--preserve-credentials", *more, "--net", "--")


def _run(enter: Sequence[str], *command: str) -> str:
    done = subprocess.run([*enter, *command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise _failure(command, done.returncode, done.stderr)
    return done.stdout


def _failure(command: Sequence[str], code: int, said: str) -> Exception:
    """Return the error for a failed command; one that was ended by a signal proves nothing about what is permitted
    here."""
    text = " ".join(command)
    if code < 0:
        return RigFailed(f"{text} was ended by {signal.Signals(-code).name}")
    return _Failed(f"{text}: {said.strip() or f'exit code {code}'}")


def why_not() -> str:
    """Return why this system permits no machines; "" if it does. Raises `RigFailed` if a signal ended the attempt."""
    for tool in ("ip", "unshare", "nsenter"):
        if shutil.which(tool) is None:
            return f"network namespaces need the command `{tool}`"
    try:
        with bridged() as bridge:
            bridge.machine()
    except _Failed as error:
        return f"network namespaces are not permitted here: {error}"
    return ""


@contextmanager
def bridged(network: IPv4Network = NETWORK) -> Iterator[Bridge]:
    """Yield a switch to which machines are joined; it and they end with the block."""
    with ExitStack() as held:
        yield Bridge(held, network)
