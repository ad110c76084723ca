"""A pool beside a node that behaves as a live Nexa node does, both real processes on real sockets: what is made at
either side before, while and after they are connected is at both ends in the end. How long that took is printed, and
decides nothing."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner
from rig import QUICK
from rigs.ports import free_port
from samples.capd import posted

from router.cli import main
from router.rig.node import NodeProcess
from router.rig.process import Process, until
from router.settings.home import Home
from services.capd.core.pool_file import encode_pool

TESTS = Path(__file__).parents[1]
AT_ONCE = 334


class Pair:
    """Our node, and the other one. `held`: the ids of all messages that were made at either side."""

    def __init__(self, folder: Path, place: str) -> None:
        self._folder = folder
        home = Home(folder / "home")
        home.create()
        text = f'network = "regtest"\nconnect = ["{place}"]\nfetch = true\n'
        home.config_path.write_text(f'[node]\nservices = ["services.capd"]\n\n[services.capd]\n{text}')
        self.home = home
        self.node = NodeProcess("our node", home, folder / "node.stderr", QUICK)
        words = (sys.executable, "-m", "rigs.live_nexa_node", place)
        self.live = Process("the live node", words, folder / "live.stderr")
        self._ours: set[str] = set()
        self._made = 0

    async def capd(self, *arguments: object) -> list[str]:
        whole = ["--home", str(self.home.path), "capd", *map(str, arguments), "--json"]
        result = await trio.to_thread.run_sync(CliRunner().invoke, main, whole)
        assert result.exit_code == 0, (arguments, result.output)
        return result.stdout.splitlines()

    async def tell(self, line: str) -> str:
        await self.live.tell(line)
        said = await self.live.line()
        assert said, self.live.said()
        return said

    async def make(self) -> None:
        """Make messages at both sides; ours come from a file, in one transaction each 256."""
        await self.tell(f"post {AT_ONCE}")
        born, self._made = int(time.time()) - 5, self._made + 1
        messages = [posted(b"ours %d %d" % (self._made, number), 6.0, born) for number in range(AT_ONCE)]
        path = self._folder / "msgpool.dat"
        path.write_bytes(encode_pool(messages))
        [said] = await self.capd("import", path)
        assert json.loads(said) == {"handed_in": AT_ONCE, "new": AT_ONCE, "known": 0}
        self._ours |= {one.own_id()[::-1].hex() for one in messages}

    async def at_both(self) -> set[str]:
        """Return the ids that both hold, once these are all that either holds."""
        found: list[set[str]] = []

        async def are_equal() -> bool:
            path = self._folder / "held"
            await self.tell(f"held {path}")
            theirs = {bytes.fromhex(one)[::-1].hex() for one in path.read_text().split()}
            here = {json.loads(line)["id"] for line in await self.capd("query", "--ids")}
            found[:] = [here]
            return here == theirs and self._ours <= here and len(here) == 2 * self._made * AT_ONCE

        await until("both hold all", are_equal)
        return found[0]

    async def until_open(self) -> None:
        async def is_open() -> bool:
            [said] = await self.capd("peers")
            return any(one["open"] for one in json.loads(said)["neighbours"])

        await until("they are connected", is_open)


@pytest.mark.long
async def test_messages_made_before_during_and_after_a_link_are_at_both_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{TESTS}:{TESTS.parent}")
    pair, said = Pair(tmp_path, f"127.0.0.1:{free_port()}"), list[str]()
    try:
        await pair.node.start()
        await pair.live.start()
        await pair.make()
        for link in ("first", "second"):
            await pair.tell("listen")
            await pair.until_open()
            began_s = time.monotonic()
            if link == "first":
                await pair.make()
            held = await pair.at_both()
            said.append(f"{link} link: {len(held):,} messages at both ends after {time.monotonic() - began_s:.1f} s")
            if link == "first":
                await pair.tell("part")
                await pair.make()
        heard = (await pair.tell("heard")).split()
        assert {"capdinv", "capdgetmsg", "capdq", "capdgetheld"} <= set(heard)
        [stands] = await pair.capd("peers")
        assert [one["points"] for one in json.loads(stands)["neighbours"]] == [0]
    finally:
        for process in (pair.node, pair.live):
            await process.kill()
    with capsys.disabled():
        print("", *said, sep="\n")
