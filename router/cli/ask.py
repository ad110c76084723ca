"""Ask the running node over its owner's socket, as a throwaway app: one question, one answer."""

from __future__ import annotations

import json
from typing import Any

import trio

from router.cli.exits import Exit, Failure
from router.client.node import ANSWER_S, connect
from router.core.wire.crypto import PublicKey
from router.settings.home import Home


def ask(home: Home, word: str, argument: str = "", timeout_s: float = ANSWER_S) -> Any:
    """Return the node's answer, decoded from JSON. Raise `Failure` if it is an error, else the client's errors."""
    return trio.run(_asked, home, word, argument, timeout_s)[0]


def ask_peers(home: Home) -> list[dict[str, Any]]:
    """Return the node's neighbours and apps, without the app that asks."""
    found, asker = trio.run(_asked, home, "peers", "", ANSWER_S)
    return [one for one in found if one["address"] != asker.hex()]


async def _asked(home: Home, word: str, argument: str, timeout_s: float) -> tuple[Any, PublicKey]:
    async with connect(home=home) as node:
        answer = json.loads(await node.ask(word, argument, timeout_s=timeout_s))
        asker = node.key
    if isinstance(answer, dict) and "error" in answer:
        raise Failure(Exit.FAILED, str(answer["error"]))
    return answer, asker
