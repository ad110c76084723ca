"""Ask the running node over its owner's socket, as a throwaway app: one question, one answer."""

from __future__ import annotations

import json
from typing import Any

import trio

from router.cli import loop
from router.cli.exits import Exit, Failure
from router.cli.output import note
from router.client.errors import NodeUnavailable
from router.client.node import ANSWER_S, Node, connect
from router.core.wire.admin import next_page, rows_in
from router.core.wire.crypto import PublicKey
from router.settings.home import Home

SERVICE = "service"
STARTING_S, AGAIN_S = 60.0, 0.3
"""How long a service that is starting is waited for, and how often it is asked meanwhile."""


def ask(home: Home, word: str, argument: str = "", timeout_s: float = ANSWER_S, *, url: str | None = None) -> Any:
    """Return the node's answer, decoded from JSON. Raise `Failure` if it is an error, else the client's errors. `url`:
    the socket of another home's node."""
    return loop.run(_asked, home, word, argument, timeout_s, url)[0]


def reload_node(home: Home) -> bool:
    """Have the running node read the changed `router.toml` again; return whether one runs. Raise `Failure` if it does
    not take it."""
    try:
        ask(home, "reload")
    except NodeUnavailable:
        return False
    except Failure as failure:
        said = f"{home.config_path} is changed, but the running node is not: {failure}"
        raise Failure(failure.code, said) from None
    return True


def ask_peers(home: Home) -> list[dict[str, Any]]:
    """Return the node's neighbours and apps, without the app that asks."""
    found, asker = loop.run(_asked, home, "peers", "", ANSWER_S)
    return [one for one in found if one["address"] != asker.hex()]


async def problem_of(node: Node, name: str, timeout_s: float = ANSWER_S) -> str:
    """Return why a service is away, or what it warns of, as `router status` does; "" if there is nothing to say."""
    rows = json.loads(await node.ask("status", timeout_s=timeout_s)).get("services", ())
    return next((str(one["problem"]) for one in rows if one["name"] == name), "")


async def service_answer(node: Node, name: str, question: str, timeout_s: float = ANSWER_S) -> Any:
    """Return the answer of a service, decoded from JSON, or what is in its place: {"error": …}.

    A service that is still starting is waited for, at most `STARTING_S`."""
    told, end_s = False, trio.current_time() + STARTING_S
    while True:
        answer = json.loads(await node.ask(SERVICE, f"{name} {question}", timeout_s=timeout_s))
        if not (isinstance(answer, dict) and answer.get("away")):
            return answer
        if problem := await problem_of(node, name, timeout_s):
            return {"error": f"the service {name} is not running: {problem}"}
        if trio.current_time() >= end_s:
            return {"error": f"the service {name} has not started within {STARTING_S:g} s; `router status` lists it"}
        if not told:
            note(f"the service {name} is starting; waiting for it")
        told = True
        await trio.sleep(AGAIN_S)


async def whole_answer(node: Node, word: str, argument: str = "", timeout_s: float = ANSWER_S) -> Any:
    """Return the node's answer, decoded from JSON; of a list that comes in pages all rows. If that changes meanwhile, a
    row may be missed or come twice."""
    rows = list[Any]()
    while True:
        answer = json.loads(await node.ask(word, argument, timeout_s=timeout_s))
        argument = next_page(answer)
        if not argument and not rows:
            return rows_in(answer)
        if not isinstance(found := rows_in(answer), list):  # an error in the midst
            return found
        rows += found
        if not argument:
            return rows


async def _asked(
    home: Home, word: str, argument: str, timeout_s: float, url: str | None = None
) -> tuple[Any, PublicKey]:
    async with connect(home=home, url=url) as node:
        if word == SERVICE:
            name, _, question = argument.partition(" ")
            answer = await service_answer(node, name, question, timeout_s)
        else:
            answer = await whole_answer(node, word, argument, timeout_s)
        asker = node.key
    if isinstance(answer, dict) and "error" in answer:
        raise Failure(Exit.FAILED, str(answer["error"]))
    return answer, asker
