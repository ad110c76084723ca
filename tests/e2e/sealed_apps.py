"""An app of the test of sealed messages over a core, a process that may be killed at any moment: `sealed_apps.py JSON`.

It shows each message that comes, and settles it, with a journal. Standard input gives numbers: it sends as many more
messages to its correspondent. Its book, a file, has a line for each step, so that the test knows what it was told:
`tries`, `sent`, `shows`, `handled` with the number of a message, or `problem` with a sentence.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import trio

from router import Node
from router.client.options import Settings
from router.core.wire.crypto import PublicKey

MARK = b"a mark that nobody on the way may read "
WEEK_S = 7 * 86_400


@dataclass
class SealedApp:
    """The arguments of an app: home of its node and name there, whom it writes to, the file that moves its clock."""

    home: str
    name: str
    to: str
    moved_by: str
    book: str

    @property
    def command(self) -> Sequence[str]:
        return sys.executable, __file__, json.dumps(asdict(self))

    def lines(self) -> list[tuple[str, str]]:
        """Return what the book says so far."""
        text = Path(self.book).read_text() if Path(self.book).exists() else ""
        return [(what, rest) for what, _, rest in (line.partition(" ") for line in text.splitlines())]

    def count(self, what: str) -> int:
        return Counter(said for said, _ in self.lines())[what]

    def wall_s(self) -> float:
        return time.time() + int(Path(self.moved_by).read_text())

    def connect(self) -> Node:
        journal = Path(self.home) / f"{self.name}.journal"
        return Node(
            Settings(
                home=self.home,
                as_name=self.name,
                journal=journal,
                when_down="queue",
                wall_s=self.wall_s,
                on_problem=lambda said: self.write("problem", said),
            )
        )

    def write(self, what: str, of: object) -> None:
        """Add a line to the book, which a kill does not undo."""
        with Path(self.book).open("ab", 0) as book:
            os.write(book.fileno(), f"{what} {of}\n".encode())

    async def read(self, node: Node) -> None:
        async for message in node.unicasts():
            assert message.sealed and message.body.startswith(MARK)
            number = int(message.body.removeprefix(MARK))
            self.write("shows", number)
            await message.settle()
            self.write("handled", number)

    async def send(self, node: Node, count: int) -> None:
        first = self.count("tries")
        for number in range(first, first + count):  # those that a kill has left open are not tried again
            self.write("tries", number)
            to = PublicKey(bytes.fromhex(self.to))
            await node.send(to, MARK + b"%d" % number, ttl_s=WEEK_S, expiry_min=WEEK_S // 60 - 10)
            self.write("sent", number)

    async def run(self) -> None:
        async with self.connect() as node, trio.open_nursery() as nursery:
            nursery.start_soon(self.read, node)
            print("ready", flush=True)
            async for words in trio.lowlevel.FdStream(0):
                await self.send(node, sum(map(int, words.split())))
                print("sent", flush=True)
            nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(SealedApp(**json.loads(sys.argv[1])).run)
