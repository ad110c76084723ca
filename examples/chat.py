"""A chat: prints the messages of the others in a group, and sends what is typed to them, line by line.

    router group new friends        # once; `router group share friends` prints the link for the others
    router serve                    # in a terminal of its own
    python examples/chat.py friends Ann

Messages sent while somebody is away wait for them, and what is typed while the own node is away waits for that. An
answer is never printed before the question.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import trio

import router


async def chat(group_name: str, me: str) -> None:
    journal = router.Home.chosen().path / f"chat-{group_name}-{me}.journal"  # so that a restart knows what was said
    async with router.connect(
        as_name=f"chat-{me}",  # a kept key, so that we can be away
        journal=journal,
        when_down="queue",  # what is typed waits for our node
        on_away=lambda sentence: print(f"({sentence})", file=sys.stderr, flush=True),
    ) as node:
        if not node.is_up:
            raise router.NodeUnavailable("our node does not run: start it with `router serve`, then the chat")
        group = await node.join(group_name, order="causal")
        print(f"You are in {group_name} as {me}. Ctrl-D leaves.", flush=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen, group)
            async for line in typed_lines():
                await say(group, f"{me}: {line}")
            nursery.cancel_scope.cancel()


async def listen(group: router.Group) -> None:
    async for message in group:  # asking for the next message settles this one
        if message.missing:
            print("(something that was said before this is not here)", flush=True)
        print(message.body.decode(errors="replace"), flush=True)


async def say(group: router.Group, text: str) -> None:
    try:
        await group.publish(text.encode())  # returns when our node has it on disk
    except (router.Refused, router.NodeUnavailable) as error:
        print(f"not said: {error}", file=sys.stderr, flush=True)


async def typed_lines() -> AsyncIterator[str]:
    while line := await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
        yield line.rstrip("\n")


def main(group_name: str, me: str) -> None:
    cause = ""
    try:
        trio.run(chat, group_name, me)
    except* router.RouterError as group:  # of any of the tasks
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        cause = str(error)
    if cause:
        sys.exit(cause)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python examples/chat.py GROUP NAME")
    try:
        main(sys.argv[1], sys.argv[2])
    except* KeyboardInterrupt:
        pass
