"""A service's questions to its own router, on a real node; and who says what in a group that the service has joined."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from rigs.own_services import block, findable, made
from rigs.patience import HANG_S
from rigs.serving import serving
from trio.testing import wait_all_tasks_blocked

from router.cli.ask import service_answer
from router.client.node import Node, connect
from router.core.wire.grouplink import new_group
from router.service.own_inquiries import BUSY, OwnInquiries
from router.service.verbs.inquire import INQUIRIES_MAX, Inquire, Told
from router.settings import keyring
from router.settings.home import Home

RULES = """
from router.service import contract as c


class Curious:
    def __init__(self, setup):
        self.numbers, self.said = {}, []

    def hear(self, heard, now):
        match heard:
            case c.Asked(number, "said"):
                return [c.Answer(number, self.said)]
            case c.Asked(number, "join", argument):
                return [c.Join(argument), c.Answer(number, True)]
            case c.Asked(number, word, argument):
                return [c.Inquire(word, argument, str(number))]
            case c.Told(tag, word, answer, error):
                return [c.Answer(int(tag), {"word": word, "answer": answer, "trouble": error})]
            case c.Message(body=body):
                deps = [one.hex() for one in heard.deps]
                self.said.append([body.decode(), heard.sender and heard.sender.hex(), heard.seq, deps])
        return []
"""


async def told(node: Node, *words: str) -> Any:
    """Return the service's answer, when it has started."""
    return await service_answer(node, "curious", " ".join(words), timeout_s=HANG_S)


@pytest.mark.parametrize("run", ["inside", "apart"])
async def test_service_asks_what_its_operator_may_ask_wherever_it_runs(
    run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (findable(tmp_path, monkeypatch) / "curious.py").write_text(RULES)
    home = made(tmp_path, block("curious", "curious", run))
    keyring.add_group(home, "friends", new_group(b"s" * 32, b"c" * 32))

    with trio.fail_after(HANG_S):
        async with serving(home.path, {}), connect(home=home) as node, connect(home=home) as other:
            for word in ("status", "peers", "queue", "groups", "metrics"):
                found = await told(node, word)
                assert (found["word"], found["trouble"]) == (word, "") and found["answer"] is not None
            assert await told(node, "join", "friends")
            id = await node.group("friends").publish(b"first")
            await other.join("friends")
            reply = await other.group("friends").publish(b"second")
            found = await told(node, "why", id.hex())
            assert found["answer"]["message"] == id.hex() and found["answer"]["recipients"], "of any message"
            assert "no message" in (await told(node, "why", "00" * 32))["trouble"]
            assert "wrong word" in (await told(node, "reload"))["error"], "what changes the node is no question"
            while len(said := await told(node, "said")) < 2:
                await trio.sleep(0.02)
            assert [one[0] for one in said] == ["first", "second"] and said[0][1] != said[1][1], reply
            assert None not in said[0] and said[0][3] == []


async def test_question_beyond_those_that_wait_is_answered_with_an_error(tmp_path: Path) -> None:
    home = Home(tmp_path)
    inquiries, found = OwnInquiries(), list[Told]()

    async def ask(number: int) -> None:
        found.append(await inquiries.ask(node, Inquire("status", "", str(number))))

    async with connect(home=home, when_down="queue") as node, trio.open_nursery() as nursery:
        for number in range(INQUIRIES_MAX):
            nursery.start_soon(ask, number)
        await wait_all_tasks_blocked()
        await ask(INQUIRIES_MAX)
        assert found == [Told(str(INQUIRIES_MAX), "status", error=BUSY)]
        nursery.cancel_scope.cancel()
