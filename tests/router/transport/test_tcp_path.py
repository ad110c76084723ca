"""What the system tells of a TCP connection's path."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack

import trio
from rigs.machines import bridged

from router.core.link.liveness import UNKNOWN
from router.rig.machines import NamespaceMachine
from router.transport import tcp

STRANDED = """
import subprocess, sys, trio
from router.transport import tcp
async def main():
    for own in sys.argv[1:]:
        [listener] = await trio.open_tcp_listeners(0, host=own.partition("/")[0])
        path = tcp.path_of(await tcp.connect(*listener.socket.getsockname()[:2]))
        before = path.is_stranded()
        subprocess.run(("ip", "address", "del", own, "dev", "eth0"), check=True)
        print(before, path.is_stranded())
trio.run(main)
"""


def test_connection_is_stranded_when_its_address_is_gone() -> None:
    with bridged() as bridge:
        machine, six = bridge.machine(), "fd00::1/64"
        machine.run("ip", "address", "add", six, "dev", "eth0", "nodad")
        assert machine.run(sys.executable, "-c", STRANDED, six, f"{machine.ip}/15") == "False True\n" * 2


async def test_path_of_a_healthy_connection_has_no_bad_sign() -> None:
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        sock = await tcp.connect(*listener.socket.getsockname()[:2])
        path = tcp.path_of(sock)
        await sock.send(b"a byte")
        async with await listener.accept() as other:
            await other.receive_some(1)
        found = path.signs()
        assert not found.is_unacked and found.repeats == 0 and not path.is_stranded()
        sock.close()
        assert path.signs() == UNKNOWN and not path.is_stranded(), "it is closed, and tells nothing"


LISTENER = """
import socket, sys
with socket.create_server((sys.argv[1], 4100)) as listener:
    print("listening", flush=True)
    held = listener.accept()
    sys.stdin.read()
"""
IN_VAIN = """
import sys, trio
from router.transport import tcp
async def main():
    sock = await tcp.connect(sys.argv[1], 4100)
    path = tcp.path_of(sock)
    print("connected", flush=True)
    sys.stdin.readline()
    await sock.send(b"a byte")
    while not ((found := path.signs()).is_unacked and found.repeats and found.acked_ago_s > 1):
        await trio.sleep(0.01)
    print("in vain", flush=True)
trio.run(main)
"""


def test_bytes_that_are_sent_again_in_vain_are_told() -> None:
    """The machine at the other end is cut off, and nobody sees that a cable is gone."""
    pipe = subprocess.PIPE
    with bridged() as bridge, ExitStack() as held:
        here, there = bridge.machine(), bridge.machine()

        def run(machine: NamespaceMachine, script: str) -> subprocess.Popen[str]:
            command = (*machine.enter, sys.executable, "-c", script, there.ip)
            found = held.enter_context(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True))
            held.callback(found.kill)
            assert found.stdout is not None
            assert found.stdout.readline() in ("listening\n", "connected\n")
            return found

        run(there, LISTENER)
        sender = run(here, IN_VAIN)
        bridge.split((there,))
        assert sender.stdin is not None and sender.stdout is not None
        sender.stdin.write("go on\n")
        sender.stdin.flush()
        assert sender.stdout.readline() == "in vain\n"
