"""A CAPD pool on a real node that is killed: offers, standing queries and matches survive, and so does rescinding."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio
from click.testing import CliRunner
from rig import QUICK, Rows
from samples.capd import posted

from router.actors.process import program
from router.cli import main
from router.cli.exits import Failure
from router.client.errors import ClientError
from router.client.node import connect
from router.rig.node import NodeProcess
from router.rig.process import Process, pause
from router.settings.home import Home
from services.capd.client import PoolClient, pool_of
from services.capd.core import messages as m
from services.capd.core.pattern import Pattern


class Wallets:
    """Runs `router capd` on one home, as wallets of its owner do."""

    def __init__(self, home: Home) -> None:
        self._home = home

    async def run(self, *arguments: object, code: int = 0) -> Rows:
        """Return the JSON lines that the command prints."""
        whole = ["--home", str(self._home.path), "capd", *map(str, arguments), "--json"]
        result = await trio.to_thread.run_sync(CliRunner().invoke, main, whole)
        assert result.exit_code == code, (arguments, result.output)
        return [json.loads(line) for line in result.stdout.splitlines()]

    async def one(self, *arguments: object, code: int = 0) -> dict[str, Any]:
        [found] = await self.run(*arguments, code=code)
        return found


def home_with_a_pool(folder: Path) -> Home:
    home = Home(folder / "home")
    home.create()
    home.config_path.write_text('[node]\nservices = ["services.capd"]\n')
    return home


async def test_what_a_killed_node_has_promised_holds(tmp_path: Path) -> None:
    home = home_with_a_pool(tmp_path)
    node = NodeProcess("node", home, tmp_path / "stderr", QUICK)
    wallet = Wallets(home)

    await node.start()  # commands wait for the pool while it starts
    try:
        assert (await node.ask("status"))["services"][0]["run"] == "apart"
        # Bob leaves a standing query under a mask, and goes.
        tkd = ("--value", "544b440c", "--mask", "ffffffff")
        await wallet.run("watch", *tkd, "--as", "bob", "--count", 1, "--timeout", 0.5, code=5)
        offer = await wallet.one("post", "TKD\x0can offer", "--rescindable", "--relay-s", 500)
        other = await wallet.one("post", "something else", "--local")
        assert other["relay_until"] is None and other["secret"] is None
        await node.kill()
        await node.start()
        # The match waited for Bob; nothing but it.
        heard = await wallet.one("watch", *tkd, "--as", "bob", "--count", 1, "--timeout", 60)
        assert (heard["id"], heard["state"], bytes.fromhex(heard["data"])) == (
            offer["id"],
            "relayed",
            b"TKD\x0can offer",
        )
        assert [one["id"] for one in await wallet.run("query", "--ids")] == [other["id"], offer["id"]]
        reply = await wallet.one("reply", offer["id"], "I take it")
        to_alice = bytes.fromhex(offer["id"])[::-1][:16].hex()
        assert [one["id"] for one in await wallet.run("query", "--prefix", to_alice)] == [reply["id"]]
        # Another message's secret rescinds nothing.
        mine = await wallet.one("post", "mine", "--local", "--rescindable")
        assert await wallet.run("rescind", offer["id"], mine["secret"], code=4) == []
        assert await wallet.one("rescind", bytes.fromhex(mine["id"])[::-1].hex()) == {"rescinded": [mine["id"]]}
        # Alice rescinds: the pool holds it, and serves it no more, also after the next kill.
        assert await wallet.one("rescind", offer["id"]) == {"rescinded": [offer["id"]]}
        assert await wallet.one("rescind", offer["id"]) == {"rescinded": []}
        await node.kill()
        await node.start()
        assert await wallet.run("query", *tkd) == []
        assert (await wallet.one("get", offer["id"]))["state"] == "rescinded"
        info = await wallet.one("info")
        assert info["count"] == 4 and info["relayPriority"] == 2.0
        # What the pool exports, another takes; this one knows it all.
        exported = tmp_path / "msgpool.dat"
        assert await wallet.one("export", exported) == {"exported": 2, "left_out": 2}
        assert {one["id"] for one in await wallet.run("decode", "--dat", exported)} == {other["id"], reply["id"]}
        assert await wallet.one("import", exported) == {"handed_in": 2, "new": 0, "known": 2}
        result = await node.run("why", offer["id"], "--json")
        assert "capd_accepted" in result.stdout and "capd_rescinded" in result.stdout and "capd_told" in result.stdout
        # Its fate is found by either order of its bytes, and by a beginning; what is held tells how it stands now.
        reversed_id = bytes.fromhex(reply["id"])[::-1].hex()
        for typed in (reply["id"], reversed_id, reply["id"][:20]):
            [held] = (await node.run("why", typed, "--json")).json["services"].values()
            assert held["state"] == "waiting" and held["priority"] > 2 and held["relay_until"] == reply["relay_until"]
        result = await node.run("audit", str(home.path), "--json")
        assert result.json["unaccounted"] == 0 and result.json["duplicates"] == 0
        [pool] = [one for one in result.json["services"] if one["service"] == "capd"]
        assert (pool["owed"], pool["ended"], pool["pending"], pool["unaccounted"]) == (4, 2, 2, 0)
        [end] = [one for one in result.json["service_ends"] if one["service"] == "capd"]
        assert (end["reason"], end["count"]) == ("capd:rescinded", 2)
        # What one query of a name has found, another of its commands prints; and one ends a query once.
        await wallet.run("watch", "--prefix", "7a39", "--as", "carol", "--count", 1, "--timeout", 0.5, code=5)
        await wallet.one("post", "z9offer", "--local")
        found = await wallet.one("watch", "--prefix", "7a3a", "--as", "carol", "--count", 1, "--timeout", 60)
        assert bytes.fromhex(found["data"]) == b"z9offer"
        for code in (0, 1):
            await wallet.run("watch", "--prefix", "7a39", "--as", "carol", "--forget", code=code)
        # What waits is printed as it stands by now.
        dead = await wallet.one("post", "z:dead", "--rescindable")
        await wallet.one("rescind", dead["id"])
        found = await wallet.one("watch", "--prefix", "7a3a", "--as", "carol", "--count", 1, "--timeout", 60)
        assert (found["id"], found["state"]) == (dead["id"], "rescinded")
    finally:
        await node.stop()


async def test_what_people_read_of_a_pool(tmp_path: Path) -> None:
    """Times are times, the outcome of an import is its exit code, and a watch that another takes over says so."""
    home = home_with_a_pool(tmp_path)
    node = NodeProcess("node", home, tmp_path / "stderr", QUICK)
    wallet = Wallets(home)
    await node.start()
    try:
        printed = (await node.run("capd", "post", "an offer")).stdout
        shown = dict(re.findall(r"^(\w+) +(.+)$", printed, re.MULTILINE))
        [held] = await wallet.run("query")
        at = datetime.strptime(shown["relay_until"], "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC)
        why = await node.run("why", held["id"])
        [stands] = (await node.run("why", held["id"], "--json")).json["services"].values()
        assert (shown["id"], stands["relay_until"]) == (held["id"], at.timestamp())
        assert why.stdout.count(f"relay_until {shown['relay_until']}") == 2, "when it was taken, and now"
        assert re.fullmatch(r"\d\.\d{1,3}", shown["priority"])
        # An import says by its exit code whether all is in the pool now.
        stale = posted(b"long faded", 2.5, int(time.time()) - 900).encoded().hex()
        fresh = posted(b"fresh", 2.5, int(time.time()) - 5).encoded().hex()
        assert await wallet.one("import", "--hex", fresh) == {"handed_in": 1, "new": 1, "known": 0}
        both = await wallet.one("import", "--hex", fresh, "--hex", stale, code=4)
        assert both == {"handed_in": 2, "new": 0, "known": 1, "capd:below-line": 1}
        refused = await node.run("capd", "import", "--hex", fresh, "--hex", stale)
        assert "message 2, " in refused.stderr and "capd:below-line: " in refused.stderr
        # One command is bob; the one before hears of the next.
        bob = ("watch", "--prefix", "7a", "--as", "bob")
        await wallet.run(*bob, "--count", 1, "--timeout", 0.5, code=5)
        await wallet.one("post", "z", "--local")
        first = Process("first", program("router", "--home", str(home.path), "capd", *bob), tmp_path / "first")
        assert (await first.start()).endswith(" z")
        await wallet.run(*bob, "--count", 1, "--timeout", 0.5, code=5)
        assert await first.wait() == 1
        assert (tmp_path / "first").read_text() == (
            "another command has signed on as bob, and what waits for bob is printed there from now on; give each "
            "watch a name of its own\n"
        )
    finally:
        await node.stop()


async def post_on(pool: PoolClient, number: int, chance: Random, answered: set[bytes]) -> None:
    """Post until the node has gone, and remember what was answered."""
    while True:
        offer = posted(b"TKD\x0c%d %d" % (number, chance.getrandbits(60)), 2.5, int(time.time()) - 5)
        try:
            answer: m.PostAnswer = await pool.ask(m.Post, offer.encoded())
        except (ClientError, Failure):
            return
        assert answer.result == 0, answer
        answered.add(offer.own_id())


@pytest.mark.long
async def test_a_node_is_killed_amid_posts_again_and_again(tmp_path: Path) -> None:
    home, chance, answered = Home(tmp_path / "home"), Random(17), set[bytes]()
    home.create()
    home.config_path.write_text('[node]\nservices = ["services.capd"]\n')
    node = NodeProcess("node", home, tmp_path / "stderr", QUICK)
    for _ in range(8):
        await node.start()
        before = len(answered)
        try:
            async with connect(home=home) as app, pool_of(app) as pool, trio.open_nursery() as nursery:
                held = {own_id async for own_id in pool.ids(Pattern.prefix(b"TKD"))}
                assert answered <= held, f"{len(answered - held)} answered posts are lost"
                for number in range(8):
                    nursery.start_soon(post_on, pool, number, chance, answered)
                wanted, began = before + chance.randrange(1, 200), trio.current_time()
                while len(answered) < wanted:
                    await pause(began)
                await node.kill()
                nursery.cancel_scope.cancel()
        except* ClientError:
            pass  # the connection has gone with the node
        finally:
            await node.kill()
    assert len(answered) > 100
