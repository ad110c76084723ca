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

import trio

import router
from services import capd

OFFER = b"XCH\x01"
MASK = b"\xff\xff\xff\x01"  # of the fourth byte only the lowest bit counts: it says what is offered
LENGTH_BYTES = 2
LIFE_S = 600


async def offer(name: str, text: str, home: str | None = None) -> None:
    """Post an offer, wait until somebody takes it, agree in their group, and rescind the offer."""
    mine = router.Prekeys(name, home=home)
    async with router.connect(as_name=name, home=home) as node, capd.open_pool(node) as pool:
        prekey = mine.current()
        data = OFFER + len(prekey).to_bytes(LENGTH_BYTES) + prekey + text.encode()
        posted = await pool.post(data, rescindable=True, replies_s=LIFE_S)
        print(f"{name} offers: {text}", flush=True)
        reply = await anext(pool)
        sealed = mine.open(reply.reply)
        group = await node.join(router.parse_link(sealed.content.decode()))
        await group.publish(f"{name}: agreed".encode())
        print(f"{name} hears {await heard(group, sealed.sender)}", flush=True)
        await reply.settle()
        await pool.rescind(posted)
        print(f"{name} rescinds {posted.id}", flush=True)


async def find(name: str, home: str | None = None) -> None:
    """Take the first offer that comes, or came while we were away, and agree with its sender in a group of ours."""
    async with router.connect(as_name=name, home=home) as node, capd.open_pool(node) as pool:
        await pool.watch(OFFER, MASK, life_s=LIFE_S)
        print(f"{name} looks for offers", flush=True)
        taken = await anext(pool)
        rest = taken.data[len(OFFER) + LENGTH_BYTES :]
        size = int.from_bytes(taken.data[len(OFFER) : len(OFFER) + LENGTH_BYTES])
        link = router.new_group(secrets.token_bytes(32), secrets.token_bytes(32), f"swap-{taken.id[-8:]}")
        group = await node.join(link)
        await pool.reply(taken, router.Prekeys(name, home=home).seal(rest[:size], link.text().encode()))
        await taken.settle()  # not before: after a crash the offer comes again
        print(f"{name} takes: {rest[size:].decode(errors='replace')}", flush=True)
        print(f"{name} hears {await heard(group, None, but=node.key)}", flush=True)
        await group.publish(f"{name}: done".encode())


async def heard(group: router.Group, sender: router.PublicKey | None, but: router.PublicKey | None = None) -> str:
    """Return the next thing that the other says in the group."""
    async for said in group:
        if said.sender != but and sender in (None, said.sender):
            return said.body.decode(errors="replace")
    sys.exit("the node has gone")


def main(task: str, name: str, *text: str) -> None:
    cause = ""
    try:
        trio.run(offer, name, " ".join(text)) if task == "offer" else trio.run(find, name)
    except* router.RouterError as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        cause = str(error)
    if cause:
        sys.exit(cause)


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("offer", "find"):
        sys.exit('usage: python examples/wallets.py find NAME, or: offer NAME "TEXT"')
    try:
        main(*sys.argv[1:])
    except* KeyboardInterrupt:
        pass
