"""Two wallets that find each other in a CAPD pool, and go on where nobody else reads.

    router serve                                          # services = ["services.capd"], in a terminal of its own
    python examples/wallets.py find ada                   # looks for offers of this kind, and takes the first
    python examples/wallets.py offer bob "5 for 7"

The offer carries its sender's prekey. Whoever takes it replies by the offer's id, with the link of a group that is
sealed to that prekey: all can see the reply, and only the offer's sender can open it. Then the offer is rescinded.
"""

from __future__ import annotations

import secrets
import sys
from typing import Any

import trio

import router
from router.core.wire.grouplink import new_group, parse_link
from services.capd.client import PoolClient, pool_of
from services.capd.core import messages as m
from services.capd.core.message import CapdMessage, read_message, reply_prefix, shown_id
from services.capd.core.pattern import Pattern
from services.capd.drafting import Solved, made, wish_of

OFFER = b"XCH\x01"
OFFERS = Pattern.of(
    OFFER, b"\xff\xff\xff\x01"
)  # of the fourth byte only the lowest bit counts: it says what is offered
ID_BYTES, LENGTH_BYTES = 16, 2
LIFE_S = 600


async def offer(name: str, text: str, home: str | None = None) -> None:
    """Post an offer, wait until somebody takes it, agree in their group, and rescind the offer."""
    mine = router.Prekeys(name, home=home)
    async with router.connect(as_name=name, home=home) as node, pool_of(node) as pool:
        prekey = mine.current()
        data = OFFER + len(prekey).to_bytes(LENGTH_BYTES) + prekey + text.encode()
        found = await solved(pool, data, rescindable=True)
        replies = Pattern.prefix(reply_prefix(found.message.own_id()))
        await accepted(pool, m.Watch, replies, LIFE_S)  # before anybody can reply
        await accepted(pool, m.Post, found.message.encoded())
        print(f"{name} offers: {text}", flush=True)
        reply, arrival = await next_match(pool)
        sealed = mine.open(reply.data[ID_BYTES:])
        group = await node.join(parse_link(sealed.content.decode()))
        await group.publish(f"{name}: agreed".encode())
        print(f"{name} hears {await heard(group, sealed.sender)}", flush=True)
        await arrival.settle()
        ended = await pool.ask(m.Rescind, found.secret)
        print(f"{name} rescinds {', '.join(map(shown_id, ended.ids))}", flush=True)


async def find(name: str, home: str | None = None) -> None:
    """Take the first offer that comes, or came while we were away, and agree with its sender in a group of ours."""
    async with router.connect(as_name=name, home=home) as node, pool_of(node) as pool:
        await accepted(pool, m.Watch, OFFERS, LIFE_S)
        print(f"{name} looks for offers", flush=True)
        taken, arrival = await next_match(pool)
        rest = taken.data[len(OFFER) + LENGTH_BYTES :]
        size = int.from_bytes(taken.data[len(OFFER) : len(OFFER) + LENGTH_BYTES])
        own_id = taken.own_id()
        link = new_group(secrets.token_bytes(32), secrets.token_bytes(32), f"swap-{own_id.hex()[:8]}")
        group = await node.join(link)
        sealed = router.Prekeys(name, home=home).seal(rest[:size], link.text().encode())
        reply = await solved(pool, reply_prefix(own_id) + sealed)
        await accepted(pool, m.Post, reply.message.encoded())
        await arrival.settle()  # not before: after a crash the offer comes again
        print(f"{name} takes: {rest[size:].decode(errors='replace')}", flush=True)
        print(f"{name} hears {await heard(group, None, but=node.key)}", flush=True)
        await group.publish(f"{name}: done".encode())


async def solved(pool: PoolClient, data: bytes, *, rescindable: bool = False) -> Solved:
    """Do the work of a message that nodes pass on for 300 s."""
    info = await pool.ask(m.Info)
    return await made(wish_of(data, None, None, None, local=False, rescindable=rescindable), info.relay, info.least)


async def accepted(pool: PoolClient, request: type[Any], *arguments: Any) -> None:
    """Ask the pool for something; end this wallet if it says no."""
    answer = await pool.ask(request, *arguments)
    if answer.result:
        sys.exit(f"the pool says no: {answer.text}")


async def next_match(pool: PoolClient) -> tuple[CapdMessage, router.Received]:
    """Return the next message for which we have a standing query; settle it when it is dealt with."""
    match, arrival = await pool.matches.receive()
    return read_message(match.message), arrival


async def heard(group: router.Group, sender: router.PublicKey | None, but: router.PublicKey | None = None) -> str:
    """Return the next thing that the other says in the group."""
    async for said in group:
        if said.sender != but and sender in (None, said.sender):
            return said.body.decode(errors="replace")
    sys.exit("the node has gone")


def main(task: str, name: str, *text: str) -> None:
    try:
        trio.run(offer, name, " ".join(text)) if task == "offer" else trio.run(find, name)
    except* router.RouterError as group:
        sys.exit("; ".join(map(str, group.exceptions)))


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("offer", "find"):
        sys.exit('usage: python examples/wallets.py find NAME, or: offer NAME "TEXT"')
    try:
        main(*sys.argv[1:])
    except* KeyboardInterrupt:
        pass
