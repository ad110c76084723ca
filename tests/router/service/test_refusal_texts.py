"""What a service says when it refuses a message: `router why` and `router status` show it, bounded and printable."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from rigs.kernels import kernel
from rigs.one_router import WALL_S
from rigs.own_services import one_service, until
from rigs.patience import HANG_S
from samples.stores import parcel

from router.cli.views import service_rows
from router.core.log.events import REFUSAL, Noted
from router.core.neighbours.directory import Directory, ServiceFacts, Standing
from router.core.routing.links import Link
from router.core.routing.refusal_texts import TEXTS_BURST, RefusalTexts
from router.core.wire.crypto import SigningKey
from router.core.wire.now import Now
from router.core.wire.reasons import Reason
from router.service.running import key_of

RULES = """
from router.service.contract import Message, Refuse

class Shy:
    def __init__(self, setup): ...

    def hear(self, heard, now):
        match heard:
            case Message(body=b"once"):
                return [Refuse("rate-limited", "not now")]
            case Message():
                return [Refuse("not-authorised", "only \\x1b[31mfriends\\nplease" + 500 * "!")]
        return []
"""


@pytest.mark.parametrize("run", ["inside", "apart"])
async def test_the_text_of_a_refusal_is_in_why_and_in_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: str
) -> None:
    async with one_service(tmp_path, monkeypatch, "shy", RULES, run=run) as (home, node):
        sent = await node.send(key_of(home, "shy").public, b"may I?", wait=True)
        [ended] = await sent.final(HANG_S)
        assert (ended.state, ended.reason) == ("refused", Reason.NOT_AUTHORISED)
        answer: dict[str, Any] = {"noted": []}
        while not answer["noted"]:
            answer = json.loads(await node.ask("why", sent.id.hex(), timeout_s=HANG_S))
        [noted] = answer["noted"]
        text = noted["fields"]["text"]
        assert noted["event"] == REFUSAL and noted["fields"]["recipient"] == "shy"
        assert noted["reason"] == "not-authorised" and text.startswith("only [31mfriendsplease!!!") and len(text) == 200
        found = (await until(home, lambda services: bool(services["shy"]["refused"])))["shy"]
        assert found["refused"]["count"] == 1 and found["refused"]["text"] == text
        assert service_rows(found)[-1][1] == f'refused 1 time, last 0 s ago, not-authorised: "{text}"'
        await node.send(key_of(home, "shy").public, b"once")
        await until(home, lambda services: services["shy"]["refused"]["text"] == "not now")


SHY, APP = (SigningKey(bytes((n,)) * 32).public for n in (71, 72))


def now(seconds: float = 0) -> Now:
    return Now(WALL_S * 10**9, int(seconds * 1e9) + 1)


def test_a_text_is_logged_once_for_a_message_and_ten_a_second_for_a_service() -> None:
    directory = Directory(bytes(32), services={bytes(SHY): ServiceFacts("shy")}, locals={bytes(SHY), bytes(APP)})
    pending: Any = kernel(directory).pending
    shy, app = (Link(n, bytes(key), Standing.LOCAL, pending) for n, key in enumerate((SHY, APP), 1))
    texts, events = RefusalTexts(directory, pending), pending.changes.events
    two = parcel(Random(1), 7, WALL_S, count=2)
    texts.refused(app, two, 0, Reason.NOT_AUTHORISED, "an app's", now())
    texts.refused(shy, two, 0, Reason.NOT_AUTHORISED, "", now())
    assert not events and texts.facts(bytes(APP), now()) is None
    for index in (0, 1, 0, 1):
        texts.refused(shy, two, index, Reason.RATE_LIMITED, "la\x1bter", now())
    assert [(one.ids, one.reason, dict(one.fields)["text"]) for one in events if isinstance(one, Noted)] == [
        (two.ids[at : at + 32], Reason.RATE_LIMITED, "later") for at in (0, 32)
    ]
    assert texts.facts(bytes(SHY), now(3)) == {"count": 5, "reason": "rate-limited", "text": "later", "age_s": 3.0}
    for n in range(2 * int(TEXTS_BURST)):
        texts.refused(shy, two, 0, Reason.NOT_AUTHORISED, f"no {n}", now())
    assert len(events) == TEXTS_BURST and repr(texts) == "<refusals of 1 services>"
    texts.refused(shy, two, 0, Reason.NOT_AUTHORISED, "no again", now(1))
    assert len(events) == TEXTS_BURST + 1
