"""Two pools joined by the protocol between Nexa nodes alone, and a client that knows nothing else, on real sockets.

The flow is that of the deployed node's own functional test (`qa/rpc-tests/capd.py`), and what no other node has: a
mask, rescinding, and the inventory of what is held.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import trio
from click.testing import CliRunner
from rig import QUICK, Rows
from rigs.ports import free_port
from samples.capd import posted

from router.cli import main
from router.rig.node import NodeProcess
from router.rig.process import until
from router.settings.home import Home
from services.capd.core.nexa.commands import (
    SUBSCRIBE,
    BadLengthReply,
    GetInfo,
    GetMsg,
    IdsReply,
    Inv,
    MessagesReply,
    Msg,
    PoolLines,
    PrefixQuery,
    Remove,
)
from services.capd.core.nexa.own_commands import MaskedQuery, RescindSecrets
from services.capd.core.pattern import Pattern
from services.capd.nexa_client import NexaClient, nexa_client


async def run(home: Home, *arguments: object) -> Rows:
    """Return the JSON lines that `router capd` prints for this home."""
    whole = ["--home", str(home.path), "capd", *map(str, arguments), "--json"]
    result = await trio.to_thread.run_sync(CliRunner().invoke, main, whole)
    assert result.exit_code == 0, (arguments, result.output)
    return [json.loads(line) for line in result.stdout.splitlines()]


def a_node(directory: Path, name: str, settings: str) -> NodeProcess:
    home = Home(directory / name)
    home.create()
    text = f'[node]\nservices = ["services.capd"]\n\n[services.capd]\nnetwork = "regtest"\n{settings}\n'
    home.config_path.write_text(text)
    return NodeProcess(name, home, directory / f"{name}.stderr", QUICK)


async def fetched(client: NexaClient, own_id: bytes) -> list[Any]:
    """Return the messages that come for this id."""
    await client.say(GetMsg(2.0, (own_id,)))
    found: Msg = await client.next(Msg)
    return list(found.messages)


async def test_offers_cross_between_two_pools_and_to_a_client_of_the_wire_alone(tmp_path: Path) -> None:
    places = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    one = a_node(tmp_path, "one", f'listen = "{places[0]}"')
    two = a_node(tmp_path, "two", f'listen = "{places[1]}"\nconnect = ["{places[0]}"]')
    nodes = (one, two)
    try:
        for node in nodes:
            await node.start()
            await node.until_answer("the pool runs", "status", lambda said: said["services"][0]["state"] == "running")
        [before] = await run(one.home, "post", "TKD\x0cbefore they met", "--relay-s", 500)
        async with nexa_client(places[0], "regtest") as first, nexa_client(places[1], "regtest") as second:
            await first.say(GetInfo(), 0x5_0000)
            info, cookie = await first.next_heard(PoolLines)
            assert isinstance(info, PoolLines) and (info.local, info.relay, cookie) == (1.0, 2.0, 0x5_FFFF)
            # What is brought is announced to all, with the same id, and crosses to the other pool.
            await second.say(PrefixQuery(7, 1 | SUBSCRIBE, 0, 200, b"TKD\x0c"))
            await second.next(MessagesReply)
            offer = posted(b"TKD\x0can offer of the wire", 30.0, int(time.time()) - 5)
            await first.say(Msg((offer,)))
            assert offer.own_id() in (await first.next(Inv)).ids
            while (told := await second.next(MessagesReply)).messages != (offer,):
                assert told.messages and told.cookie == 7
            assert await fetched(second, offer.own_id()) == [offer]
            # What one held before they met has come as well.
            await second.say(MaskedQuery(8, 2, 0, 10, Pattern.of(b"TKD\x0cbe", b"\xff\xff\xff\x0f\xff\x7f")))
            assert [one[::-1].hex() for one in (await second.next(IdsReply)).ids] == [before["id"]]
            # Queries: hits by 2, 4 and 16 bytes, misses, and lengths that cannot be looked for.
            for content, count in ((b"TK", 2), (b"TKD\x0c", 2), (offer.data[:16], 1), (b"nowhere ", 0)):
                await second.say(PrefixQuery(9, 1, 0, 200, content))
                found: MessagesReply = await second.next(MessagesReply)
                assert (found.total, len(found.messages)) == (count, count), content
            await second.say(PrefixQuery(9, 1, 0, 200, b"TKD"))
            assert await second.next(BadLengthReply, MessagesReply) == BadLengthReply(9, 3)
            # No more matches after the removal; a local post crosses, too, and is told of by its inventory alone.
            await second.say(Remove(7))
            [local] = await run(one.home, "post", "TKD\x0cby a wallet", "--relay-s", 500, "--rescindable")
            own_id = bytes.fromhex(local["id"])[::-1]
            while own_id not in (said := await second.next(Inv, MessagesReply)).ids:
                assert isinstance(said, Inv)
            # A rescinded message is announced, served and matched no more, at the other pool neither.
            await first.say(RescindSecrets((bytes.fromhex(local["secret"]),)))
            await second.next(RescindSecrets)
            await second.say(GetMsg(0.0, (own_id, offer.own_id())))
            assert (await second.next(Msg)).messages == (offer,)
        [seen] = await run(two.home, "peers")
        [link] = [one for one in seen["neighbours"] if one["direction"] == "out"]
        assert (link["target"], link["taken"], link["open"]) == (places[0], 3, True)

        async def is_told() -> bool:
            told = (await one.run("why", local["id"], "--json")).stdout
            return "capd_sent" in told and "capd_rescinded" in told

        await until("why tells to whom it went, and its end", is_told)
    finally:
        for node in nodes:
            await node.stop()
