"""A list that laptops edit while they cannot reach each other, and that becomes the same on all once they can.

    router group new shopping                           # once; `router group share shopping` is for the others
    python examples/shared_list.py shopping Ann         # then type: + milk, - milk, or an empty line to see the list

Each line that is added is an item of its own, named by its message's id. Taking a line off removes the items that one
sees, so what somebody else adds meanwhile stays. Causal order makes this simple: an item is always here before the
message that removes it, and nobody has to remember removed items.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import trio

import router


class SharedList:
    """The items by their ids, in a file that is written before a message is settled; an edit done twice is harmless."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.items: dict[str, str] = {}
        self.gone: list[str] = []  # taken off before they came, as `message.missing` said
        if path.exists():
            self.items, self.gone = json.loads(path.read_text())

    def __str__(self) -> str:
        return ", ".join(sorted(set(self.items.values()))) or "(empty)"

    def ids(self, text: str) -> list[str]:
        return [id for id, one in self.items.items() if one == text]

    def do(self, id: str, edit: dict[str, Any], missing: list[str]) -> None:
        if "add" in edit and id not in self.gone:
            self.items[id] = edit["add"]
        for one in edit.get("off", ()):
            self.items.pop(one, None)
            if one in missing:
                self.gone.append(one)
        draft = self.path.with_suffix(".draft")
        draft.write_text(json.dumps([self.items, self.gone]))
        draft.replace(self.path)


async def keep(group_name: str, me: str) -> None:
    folder = router.Home.chosen().path
    shared = SharedList(folder / f"{group_name}-{me}.json")
    journal = folder / f"{group_name}-{me}.journal"
    async with router.connect(as_name=f"list-{me}", journal=journal) as node:
        group = await node.join(group_name, order="causal")
        print(f"{me} has {shared}", flush=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow, group, shared)
            async for line in typed_lines():
                await edit(group, shared, line)
            nursery.cancel_scope.cancel()


async def follow(group: router.Group, shared: SharedList) -> None:
    async for message in group:
        what = read(message.body)
        if what is None:
            await message.refuse("malformed")
            continue
        shared.do(message.id.hex(), what, [id.hex() for id in message.missing])
        print(f"now {shared}", flush=True)


def read(body: bytes) -> dict[str, Any] | None:
    """Return the edit in a message; None if it is none, because any member may send anything."""
    try:
        what = json.loads(body)
    except ValueError:
        return None
    is_edit = isinstance(what, dict) and isinstance(what.get("add", ""), str) and isinstance(what.get("off", []), list)
    return what if is_edit and all(isinstance(one, str) for one in what.get("off", [])) else None


async def edit(group: router.Group, shared: SharedList, line: str) -> None:
    sign, text = line[:1], line[1:].strip()
    if sign in ("+", "-"):
        what: dict[str, Any] = {"add": text} if sign == "+" else {"off": shared.ids(text)}
        try:
            id = await group.publish(json.dumps(what).encode())
        except (router.Refused, router.NodeUnavailable) as error:
            print(f"not done: {error}", file=sys.stderr, flush=True)
            return
        shared.do(id.hex(), what, [])
    print(f"here {shared}", flush=True)


async def typed_lines() -> AsyncIterator[str]:
    while line := await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
        yield line.rstrip("\n")


def main(group_name: str, me: str) -> None:
    cause = ""
    try:
        trio.run(keep, group_name, me)
    except* router.RouterError as group:  # of any of the tasks
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        cause = str(error)
    if cause:
        sys.exit(cause)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python examples/shared_list.py GROUP NAME")
    try:
        main(sys.argv[1], sys.argv[2])
    except* KeyboardInterrupt:
        pass
