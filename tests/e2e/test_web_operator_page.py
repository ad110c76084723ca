"""The operator's page of a real node: a queue grows while its app is away, and drains when it is back; the page says
why, and what became of a message."""

from __future__ import annotations

import json
import re
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner, Result
from rigs.patience import HANG_S
from rigs.ports import free_port
from rigs.serving import serving
from rigs.web_sides import body_of, request, status_of

from router.cli import main
from router.cli.exits import Exit
from router.client.node import connect
from router.core.wire.crypto import SigningKey
from router.core.wire.grouplink import new_group
from router.settings import keyring
from router.settings.config import edit_peers
from router.settings.config_peers import AddPeer, Peer
from router.settings.home import Home

GROUP, READER = SigningKey(b"g" * 32), SigningKey(b"r" * 32)
MESSAGES = 40


def made(path: Path, port: int) -> Home:
    home = Home(path / "home")
    home.create()
    home.config_path.write_text(
        '[node]\nname = "attic"\nlisten = []\n[[node.services]]\nname = "web"\nmodule = "services.web"\n'
        f'run = "inside"\n[services.web]\nlisten = ""\noperator = "tcp://127.0.0.1:{port}"\n'
    )
    reader = Peer(address=READER.public, name="reader", grant=("join", "store"))
    edit_peers(home.config_path, AddPeer(reader))
    keyring.add_group(home, "friends", new_group(b"g" * 32, bytes(32), "friends"))
    return home


async def run(home: Path, *words: str) -> Result:
    return await trio.to_thread.run_sync(partial(CliRunner().invoke, main, ["--home", str(home), *words]))


async def command(home: Path, *words: str) -> Any:
    """Return what the command prints, as JSON."""
    result = await run(home, *words, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


async def answer_at(port: int, path: str, *headers: str) -> bytes:
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(request(path, "Connection: close", "Accept: text/html", *headers))
        return b"".join([bytes(one) async for one in stream])


class Events:
    """The events of an open page."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._buffer = ""

    async def next(self) -> tuple[str, dict[str, str]]:
        """Return the name of the next one, and its value."""
        while not (found := re.search(r"event: (\w+)\ndata: (.*)\n\n", self._buffer)):
            self._buffer += bytes(await self._stream.receive_some()).decode()
        self._buffer = self._buffer[found.end() :]
        return found[1], json.loads(found[2])

    async def until(self, name: str, part: str = "", text: str = "") -> None:
        """Wait for an event of this name; for one in which the part has a text like this, if one is named."""
        while True:
            found, parts = await self.next()
            if found == name and (not part or re.search(text, parts.get(part, ""), re.DOTALL)):
                return


async def test_page_shows_a_queue_that_grows_and_drains_and_says_why(tmp_path: Path) -> None:
    port = free_port()
    home = made(tmp_path, port)
    with trio.fail_after(HANG_S):
        async with serving(home.path, {}):
            opened = await command(home.path, "web", "open")
            assert opened["url"].startswith(f"http://127.0.0.1:{port}/login?link=")
            assert opened["ssh"].startswith(f"ssh -N -L {port}:127.0.0.1:{port} ")
            path = opened["url"].removeprefix(f"http://127.0.0.1:{port}")
            entered = await answer_at(port, path)
            (value,) = re.findall(rb"Set-Cookie: ([^;]+);", entered)
            cookie = f"Cookie: {value.decode()}"
            used = await answer_at(port, path)
            assert status_of(used) == 403 and b"was used already" in used

            async with connect(home=home, key=READER) as app:
                await app.join(GROUP)
            async with connect(home=home) as node:
                ids = [await node.group(GROUP).publish(b"%d" % at, raw=True) for at in range(MESSAGES)]
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                await stream.send_all(request("/events", cookie))
                await Events(stream).until("parts", "queues", f"{MESSAGES} messages for 1 recipient.*reader is away")
            page = body_of(await answer_at(port, "/", cookie)).decode()
            assert "<td>friends</td>" in page and "reader is away" in page
            why = unescape(body_of(await answer_at(port, f"/why?id={ids[0].hex()}", cookie)).decode())
            assert "It has reached 0 of 1 recipient; 1 waits." in why and "queued" in why

            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                await stream.send_all(request("/events", cookie))
                events = Events(stream)
                await events.until("parts")
                async with connect(home=home, key=READER) as app, trio.open_nursery() as nursery:
                    group = await app.join(GROUP)

                    async def read() -> None:
                        async for _ in group:
                            pass

                    nursery.start_soon(read)
                    await events.until("parts", "queues", "Nothing waits")
                    nursery.cancel_scope.cancel()
                (row,) = await command(home.path, "web", "logins")
                assert (row["id"], row["state"]) == (opened["id"], "open")
                await command(home.path, "web", "logins", "--end", opened["id"])
                await events.until("over")
            gone = await answer_at(port, "/", cookie)
            assert status_of(gone) == 403 and b"was ended by the operator" in gone


@pytest.mark.parametrize("operator", [True, False])
async def test_commands_about_logins_say_what_is_there_and_what_to_do(operator: bool, tmp_path: Path) -> None:
    port = free_port()
    home = made(tmp_path, port)
    if not operator:
        text = home.config_path.read_text().replace(f"tcp://127.0.0.1:{port}", "")
        home.config_path.write_text(text)
    with trio.fail_after(HANG_S):
        async with serving(home.path, {}):
            opened = await run(home.path, "web", "open")
            if not operator:
                assert opened.exit_code == Exit.USAGE and "services.web.operator is empty" in opened.stderr
                return
            assert opened.stdout.startswith(f"http://127.0.0.1:{port}/login?link=") and opened.stdout.count("\n") == 1
            assert "works once, within 5 minutes" in opened.stderr and f"ssh -N -L {port}:" in opened.stderr
            listed = await run(home.path, "web", "logins")
            assert "link, not used yet" in listed.stdout
            unknown = await run(home.path, "web", "logins", "--end", "nobody")
            assert unknown.exit_code == Exit.FAILED and "router --home" in unknown.stderr
            wrong = await run(home.path, "web", "open", "--expires", "soon")
            assert wrong.exit_code == Exit.USAGE and "--expires" in wrong.stderr
            ended = await run(home.path, "web", "logins", "--end", listed.stdout.split("\n")[1].split()[0])
            assert ended.exit_code == 0 and "is ended" in ended.stdout
