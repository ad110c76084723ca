"""The guestbook of the examples does the same inside the node, apart and by hand, and loses nothing by a kill."""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from rigs.patience import HANG_S
from rigs.ports import free_port
from rigs.serving import serving
from rigs.short_temporary_files import short_place

from router.actors.process import program
from router.client.errors import Refused
from router.client.node import Node, connect
from router.core.wire.crypto import PublicKey, SigningKey
from router.rig.process import Process, until
from router.service.running import key_of
from router.settings import keyring
from router.settings.home import Home

EXAMPLES = str(Path(__file__).parents[2] / "examples")
RUNS = ("inside", "apart", "by-hand")


def configuration(ports: dict[str, int]) -> str:
    blocks = [
        f'[[node.services]]\nname = "{run}"\nmodule = "guestbook"\nrun = "{run}"\n'
        f'[services.{run}]\npages_max = 3\nboard = "udp://127.0.0.1:{ports[run]}"\n'
        f'desk = "unix:{run}.sock?mode=666"\n'
        for run in RUNS
    ]
    return "".join(blocks)


@asynccontextmanager
async def guestbooks(path: Path) -> AsyncIterator[tuple[Home, dict[str, int]]]:
    """Run a node with three guestbooks, one for each way to run."""
    ports = {run: free_port() for run in RUNS}
    home = Home(path / "home")
    home.create()
    home.config_path.write_text(configuration(ports))
    by_hand = Process("by hand", program("router.service.apart", str(home.path), "by-hand"), path / "by-hand.stderr")
    async with serving(home.path, {"link.goodbye_s": 0.5}):
        await by_hand.launch()
        try:
            await until("all guestbooks are there", lambda: are_there(home))
            yield home, ports
        finally:
            with trio.CancelScope(shield=True):
                await by_hand.stop()


async def are_there(home: Home) -> bool:
    services = (await answer(home, "status"))["services"]
    return all(one["state"] == "running" for one in services)


async def asked(node: Node, name: str, question: str) -> Any:
    return json.loads(await node.ask("service", f"{name} {question}", timeout_s=HANG_S))


async def told(node: Node, guest: PublicKey, body: bytes) -> bytes:
    """Return the guestbook's answer to a page or a word."""
    await node.send(guest, body)
    async for message in node.unicasts():
        if message.source == guest:
            return message.body
    raise AssertionError


def dialled(path: Path, text: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as desk:
        desk.settimeout(HANG_S)
        desk.connect(str(path))
        desk.sendall(text)
        return desk.recv(100)


def counted(port: int) -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as board:
        board.settimeout(HANG_S)
        board.sendto(b"?", ("127.0.0.1", port))
        return board.recv(100)


async def story(home: Home, run: str, port: int) -> dict[str, Any]:
    """Do everything that a guest and the operator can do with one guestbook, and return the results."""
    found: dict[str, Any] = {}
    address, neighbour = key_of(home, run).public, SigningKey(run.encode().ljust(32)).public
    async with connect(home=home, as_name=f"guest-{run}", outcomes=True) as node:
        group = await node.join(address, timeout_s=HANG_S)
        found["first"] = await told(node, address, b"well met")
        found["published"] = (await anext(group.messages())).body
        found["desk"] = await trio.to_thread.run_sync(dialled, home.path / f"{run}.sock", b"from the desk\n")
        found["board"] = await trio.to_thread.run_sync(counted, port)
        found["third"] = await told(node, address, b"well well")
        empty = await node.send(address, b" ", wait=True)
        found["empty"] = [(one.state, one.reason) for one in await empty.final(HANG_S)]
        why = json.loads(await node.ask("why", empty.id.hex(), timeout_s=HANG_S))
        found["why"] = [(one["state"], one["reason"]) for one in why["recipients"]]
        found["favourite"] = await asked(node, run, "favourite")
        found["struck"] = await asked(node, run, "strike 2")
        found["pages"] = [(one["page"], one["text"]) for one in (await asked(node, run, "pages"))["pages"]]
        found["unknown"] = await asked(node, run, "sing")
        found["visit"] = await told(node, address, b"visit")
        await node.send(address, f"meet {neighbour.hex()} tls://127.0.0.1:9".encode())
        await until("the neighbour is known", lambda: is_known(home, neighbour, run))
        await until("the log has the event", lambda: is_noted(home, empty.id))
        full = await node.send(address, b"one too many")
        await until("it waits for a page", lambda: waits(home, full))
    return found


async def answer(home: Home, word: str, argument: str = "") -> Any:
    """Return the node's answer to a new app, because one app may not repeat a question often."""
    async with connect(home=home) as node:
        return json.loads(await node.ask(word, argument, timeout_s=HANG_S))


async def is_known(home: Home, key: PublicKey, by: str) -> bool:
    peers = {one["address"]: one for one in await answer(home, "peers")}
    return key.hex() in peers and bool(peers[key.hex()]["learned"] == by)


async def waits(home: Home, id: bytes) -> bool:
    """Whether the message was refused for now, and is still queued."""
    [one] = (await answer(home, "why", id.hex()))["recipients"]
    return (one["state"], one["reason"]) == ("queued", "guestbook:full")


async def is_noted(home: Home, id: bytes) -> bool:
    """Whether `why` shows the guestbook's event about the message."""
    noted = (await answer(home, "why", id.hex()))["noted"]
    return [(one["event"], one["reason"]) for one in noted] == [("guestbook_turned", "guestbook:empty")]


@pytest.fixture
def place() -> Iterator[Path]:
    """Return a directory with a short name, because the path of a Unix socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="guestbook-", dir=short_place()) as name:
        yield Path(name)


async def test_it_is_the_same_inside_apart_and_by_hand(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", EXAMPLES)
    with trio.fail_after(HANG_S):
        async with guestbooks(place) as (home, ports):
            inside, apart, by_hand = [await story(home, run, ports[run]) for run in RUNS]
    assert inside == apart == by_hand
    assert inside == {
        "first": b"page 1", "published": b"page 1", "desk": b"page 2\n", "board": b"2 pages\n", "third": b"page 3",
        "empty": [("refused", 301)], "why": [("refused", "guestbook:empty")],
        "favourite": {"favourite": "well", "error": ""}, "struck": {"struck": 1},
        "pages": [(1, "well met"), (3, "well well")],
        "unknown": {"error": "a guestbook knows pages, favourite, strike and pass, not sing"}, "visit": b"welcome",
    }  # fmt: skip


async def test_a_message_is_pulled_and_sent_on_as_it_is_to_a_neighbour_that_was_learned(tmp_path: Path) -> None:
    near, far, url = Home(tmp_path / "near"), Home(tmp_path / "far"), f"tls://127.0.0.1:{free_port()}"
    for home in (near, far):
        home.create()
    there, here = (keyring.load_or_create(home, keyring.NODE).public for home in (far, near))
    near.config_path.write_text('[node]\nservices = ["guestbook"]\n')
    far.config_path.write_text(f'[node]\nlisten = ["{url}"]\n[[peers]]\naddress = "{here.hex()}"\n')
    book = key_of(near, "guestbook").public
    with trio.fail_after(HANG_S):
        async with (
            serving(near.path, {}),
            serving(far.path, {}),
            connect(home=near, as_name="guest") as node,
            connect(home=far, as_name="reader") as reader,
        ):
            group, afar = [await one.join(book, timeout_s=HANG_S) for one in (node, reader)]
            await node.send(book, f"meet {there.hex()} {url}".encode())
            await until("the neighbour is known", lambda: is_known(near, there, "guestbook"))
            await node.send(book, b"well met")
            page = await anext(group.messages())
            assert await asked(node, "guestbook", f"pass {page.id.hex()} {there.hex()}") == {"passed": page.id.hex()}
            passed = await anext(afar.messages())
            assert (passed.id, passed.body, passed.via) == (page.id, b"page 1", here)
            assert passed.wire == page.wire


async def test_a_stream_of_another_user_is_handed_to_the_router_as_a_link(place: Path) -> None:
    """The user is admitted by the key that it proves, not as the owner, whose process carries the stream."""
    home, guest = Home(place / "home"), SigningKey(b"g" * 32)
    home.create()
    text = '[node]\nservices = ["guestbook"]\n[services.guestbook]\ndesk = "unix:desk.sock?mode=666"\n'
    home.config_path.write_text(f'{text}[[peers]]\naddress = "{guest.public.hex()}"\ngrant = ["join"]\n')
    with trio.fail_after(HANG_S):
        async with serving(home.path, {}), trio.open_nursery() as nursery:
            await until("the guestbook is there", lambda: are_there(home))
            raw = trio.socket.socket(socket.AF_UNIX)
            await raw.bind(str(place / "led.sock"))
            raw.listen()
            listener = trio.SocketListener(raw)
            nursery.start_soon(partial(lead_to_desk, home.path / "desk.sock", listener))
            async with connect(url=f"unix://{place / 'led.sock'}", key=guest, home=place) as node:
                await node.join(SigningKey(b"h" * 32), timeout_s=HANG_S)
                [peer] = [one for one in await answer(home, "peers") if one["address"] == guest.public.hex()]
                assert (peer["standing"], peer["state"]) == ("client", "connected")
                with pytest.raises(Refused):
                    await node.ask("status")
            nursery.cancel_scope.cancel()


async def lead_to_desk(desk: Path, listener: trio.SocketListener) -> None:
    """Pass one connection on to the desk, announced as a link."""
    async with listener, await listener.accept() as near, await trio.open_unix_socket(str(desk)) as far:
        await far.send_all(b"LINK\n")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(copy, near, far)
            await copy(far, near)
            nursery.cancel_scope.cancel()


async def copy(here: trio.SocketStream, there: trio.SocketStream) -> None:
    while data := await here.receive_some():
        await there.send_all(data)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
async def test_a_door_is_open_to_the_user_whom_its_mode_names(place: Path) -> None:
    """Another user reaches the socket if its directory permits; the home itself stays closed."""
    home = Home(place / "home")
    home.create()
    place.chmod(0o755)
    text = '[node]\nservices = ["guestbook"]\n[services.guestbook]\n'
    home.config_path.write_text(f'{text}desk = "unix:{place}/desk.sock?mode=666"\n')
    with trio.fail_after(HANG_S):
        async with serving(home.path, {}):
            await until("the guestbook is there", lambda: are_there(home))
            assert await said_by_nobody(place / "desk.sock") == "page 1\n"
            assert "Permission denied" in await said_by_nobody(home.socket_path)
    assert not (place / "desk.sock").exists(), "the door is gone with its service"


async def said_by_nobody(path: Path) -> str:
    """Write a line to the socket as the user `nobody`, and return the answer, or the error."""
    as_nobody = (
        "import os, pwd, socket, sys; who = pwd.getpwnam('nobody');"
        "os.setgroups([]); os.setgid(who.pw_gid); os.setuid(who.pw_uid);"
        "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(b'by nobody\\n');"
        "print(s.recv(100).decode(), end='')"
    )
    command = [sys.executable, "-c", as_nobody, str(path)]
    done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
    return (done.stdout or done.stderr).decode()
