"""The signers of the demo: `python -m services.dmq.demo.signers SOCKET MAGIC FILE`, which forks a process for each.

Each hands in every message over a new connection, as mithril's do, and repeats none: a message whose answer was lost
with the node counts as unknown. A line of JSON gives the outcome of each.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import trio

from services.dmq.client.connection import Broken, DmqError, Unreachable, connect
from services.dmq.core.protocols.submission import MsgAcceptMessage

POLL_S = 0.1
ACCEPTED, REJECTED, UNKNOWN = "accepted", "rejected", "unknown"


async def hand_in(path: Path, magic: int, number: int, wire: bytes, parent: int) -> None:
    """Hand one message in when the node can be reached, and print its answer; end with the process `parent`."""
    answer, text = UNKNOWN, ""
    while True:
        has_begun = False
        try:
            async with connect(path, magic) as node:
                has_begun = True
                found = await node.submit(wire)
                answer = ACCEPTED if isinstance(found, MsgAcceptMessage) else REJECTED
                text = "" if isinstance(found, MsgAcceptMessage) else f"{found.kind.name} {found.text}"
                await node.finish()
        except (Unreachable, Broken) as error:
            if not has_begun:
                if os.getppid() != parent:
                    sys.exit("the process that started this one has ended")
                await trio.sleep(POLL_S)
                continue
            text = str(error)
        break
    os.write(1, json.dumps({"number": number, "answer": answer, "text": text}).encode() + b"\n")


async def sign(path: Path, magic: int, share: Sequence[tuple[int, bytes]], parent: int) -> None:
    for number, wire in share:
        await hand_in(path, magic, number, wire, parent)


def main() -> None:
    path, magic, file = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    shares: dict[int, list[tuple[int, bytes]]] = {}
    for number, line in enumerate(file.read_text().splitlines()):
        signer, wire = line.split()
        shares.setdefault(int(signer), []).append((number, bytes.fromhex(wire)))
    children, parent = [], os.getpid()
    for share in shares.values():
        if not (child := os.fork()):
            trio.run(sign, path, magic, share, parent)
            os._exit(0)
        children.append(child)
    failed = [os.waitpid(child, 0)[1] for child in children]
    sys.exit(max(failed) and 1)


if __name__ == "__main__":
    try:
        main()
    except DmqError as error:
        sys.exit(str(error))
