"""A wallet of the demo: `python -m services.capd.demo.wallet TASK HOME …`, which reports in JSON lines and ends.

watch HOME MASKED            leave a standing query for offers
offer HOME TEXT              post an offer with a prekey, and leave a standing query for replies
take HOME URL                take the offer that waits: reply with an invitation into a group, sealed to its prekey
agree HOME ID SECRET         open the reply that waits, come into the group, and rescind the offer
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

import router
from router.actors.process import program
from router.rig.process import RigFailed, run_command
from services.capd.client import PoolClient, pool_of
from services.capd.core import messages as m
from services.capd.core.message import CapdMessage, read_message, reply_prefix, shown_id
from services.capd.core.pattern import Pattern
from services.capd.drafting import Solved, made, wish_of

OFFER = b"XCH\x01"
OFFERS = Pattern.of(OFFER, b"\xff\xff\xff\x01")
GROUP = "swap"
ID_BYTES, LENGTH_BYTES = 16, 2
LIFE_S, RELAY_S = 600, 500
ALICE, BOB = "alice", "bob"
AGREED, DONE = "agreed", "done"


def report(**values: Any) -> None:
    print(json.dumps(values), flush=True)


@asynccontextmanager
async def wallet(home: str, name: str) -> AsyncIterator[tuple[router.Node, PoolClient]]:
    async with router.connect(home=home, as_name=name) as node, pool_of(node) as pool:
        yield node, pool


async def solved(pool: PoolClient, data: bytes, *, rescindable: bool = False) -> Solved:
    info = await pool.ask(m.Info)
    return await made(wish_of(data, RELAY_S, None, 1, local=False, rescindable=rescindable), info.relay, info.least)


async def accepted(asked: Awaitable[Any]) -> None:
    answer = await asked
    if answer.result:
        raise RigFailed(f"the pool says no: {answer.text}")


async def next_match(pool: PoolClient) -> tuple[CapdMessage, router.Received]:
    match, arrival = await pool.matches.receive()
    return read_message(match.message), arrival


async def heard(group: router.Group, sender: router.PublicKey | None, but: router.PublicKey) -> str:
    async for said in group:
        if said.sender != but and sender in (None, said.sender):
            return said.body.decode(errors="replace")
    raise RigFailed("the node has gone")


async def watch(home: str) -> None:
    async with wallet(home, BOB) as (node, pool):
        await accepted(pool.ask(m.Watch, OFFERS, LIFE_S))
        report(address=node.key.hex())


async def offer(home: str, text: str) -> None:
    prekey = router.Prekeys(ALICE, home=home).current()
    async with wallet(home, ALICE) as (_, pool):
        data = OFFER + len(prekey).to_bytes(LENGTH_BYTES) + prekey + text.encode()
        found = await solved(pool, data, rescindable=True)
        own_id = found.message.own_id()
        await accepted(pool.ask(m.Watch, Pattern.prefix(reply_prefix(own_id)), LIFE_S))
        await accepted(pool.ask(m.Post, found.message.encoded()))
        report(id=shown_id(own_id), secret=found.secret.hex(), message=found.message.encoded().hex())


async def take(home: str, url: str) -> None:
    async with wallet(home, BOB) as (node, pool):
        taken, arrival = await next_match(pool)
        rest = taken.data[len(OFFER) + LENGTH_BYTES :]
        size = int.from_bytes(taken.data[len(OFFER) : len(OFFER) + LENGTH_BYTES])
        report(taken=shown_id(taken.own_id()), text=rest[size:].decode(errors="replace"))
        invitation = await run(home, "invite", "--group", GROUP, "--uses", "1", "--at", url, "--json")
        group = await node.join(GROUP)
        sealed = router.Prekeys(BOB, home=home).seal(rest[:size], json.loads(invitation)["link"].encode())
        reply = await solved(pool, reply_prefix(taken.own_id()) + sealed)
        await accepted(pool.ask(m.Post, reply.message.encoded()))
        await arrival.settle()
        report(replied=shown_id(reply.message.own_id()), bytes=len(reply.message.data))
        report(heard=await heard(group, None, node.key))
        await group.publish(DONE.encode())


async def agree(home: str, own_id: str, secret: str) -> None:
    async with wallet(home, ALICE) as (node, pool):
        reply, arrival = await next_match(pool)
        sealed = router.Prekeys(ALICE, home=home).open(reply.data[ID_BYTES:])
        report(opened=sealed.sender.hex(), to=reply.data[:ID_BYTES][::-1].hex())
        await run(home, "peer", "add", sealed.content.decode(), "--yes", "--json")
        group = await node.join(GROUP)
        await group.publish(AGREED.encode())
        report(heard=await heard(group, sealed.sender, node.key))
        await arrival.settle()
        ended = await pool.ask(m.Rescind, bytes.fromhex(secret))
        report(rescinded=[shown_id(one) for one in ended.ids], of=own_id)


async def run(home: str, *words: str) -> str:
    """Run a `router` command on this home; return what it prints."""
    done = await run_command(program("router", "--home", home, *words))
    if done.code:
        raise RigFailed(f"`router {words[0]}` ended with code {done.code}: {done.stderr[-500:]}")
    return done.stdout


TASKS: dict[str, Callable[..., Awaitable[None]]] = {"watch": watch, "offer": offer, "take": take, "agree": agree}


def main() -> None:
    task, *arguments = sys.argv[1:]
    trio.run(TASKS[task], *arguments)


if __name__ == "__main__":
    main()
