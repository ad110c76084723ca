"""The error that a wallet gets from a pool that does not answer, on a real node."""

from __future__ import annotations

from pathlib import Path

import pytest
from rigs.own_services import one_service

from router.cli.exits import Exit, Failure
from services.capd import client
from services.capd.core import messages as m
from services.capd.core.message import CapdMessage, shown_id
from services.capd.wallet import PoolError, open_pool

MUTE = """
from router.service.contract import Answer, Asked, Started, Warn

class Mute:
    def __init__(self, setup):
        self.address = setup.key.hex()

    def hear(self, heard, now):
        if isinstance(heard, Asked):
            return [Answer(heard.number, {"address": self.address, "data_bytes_max": 100})]
        return [Warn("it is deaf; give it time")] if isinstance(heard, Started) else []
"""

FORGETFUL = """
from router.service.contract import Answer, Asked, Message, Send
from services.capd.core import messages as m

class Forgetful:
    posts = 0

    def __init__(self, setup):
        self.address = setup.key.hex()

    def hear(self, heard, now):
        if isinstance(heard, Asked):
            return [Answer(heard.number, {"address": self.address})]
        if isinstance(heard, Message):
            self.posts += 1
            said = m.decode_message(heard.body)
            return [Send(heard.source, m.encode_message(m.PostAnswer(said.n, 0)), 30)] if self.posts == 2 else []
        return []
"""


async def test_an_error_in_the_block_of_a_pool_comes_out_as_it_was_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with one_service(tmp_path, monkeypatch, "capd", MUTE, module="mute") as (_, node):
        with pytest.raises(LookupError, match=r"^mine$") as raised:
            async with open_pool(node):
                raise LookupError("mine") from ValueError("why")
        assert isinstance(raised.value.__cause__, ValueError)
        with pytest.raises(PoolError, match=r"^the pool"):
            async with open_pool(node):
                raise Failure(Exit.FAILED, "the pool is away")
        with pytest.raises(ExceptionGroup) as several:
            async with open_pool(node):
                raise ExceptionGroup("of two", [LookupError("a"), LookupError("b")])
        assert several.value.message == "of two"


async def test_ask_reports_the_warning_of_a_pool_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "ANSWER_S", 1.0)
    async with (
        one_service(tmp_path, monkeypatch, "capd", MUTE, module="mute") as (_, node),
        client.pool_of(node) as pool,
    ):
        with pytest.raises(Failure, match=r"^the pool has not answered within 1 s: it is deaf; give it time$"):
            await pool.ask(m.Info)


async def test_wallet_is_told_of_too_much_data_before_the_pool_is_asked_and_the_work_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "ANSWER_S", 1.0)
    async with one_service(tmp_path, monkeypatch, "capd", MUTE, module="mute") as (_, node), open_pool(node) as pool:
        with pytest.raises(PoolError, match=r"^capd:too-large: this is 101 bytes of data, and the pool takes 100 in"):
            await pool.post(bytes(101))
        with pytest.raises(PoolError, match="or its secret as bytes, is rescinded, not a str"):
            await pool.rescind("0a" * 20)  # type: ignore[arg-type]
        with pytest.raises(PoolError, match="a limit of -1 asks for nothing"):
            await pool.query(limit=-1)


async def test_post_is_repeated_where_its_answer_was_lost_and_says_in_the_end_that_nothing_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "POST_AGAIN_S", 0.5)
    message = CapdMessage(b"offer", 1_800_000_000, 0x1D00FFFF)
    async with (
        one_service(tmp_path, monkeypatch, "capd", FORGETFUL, module="forgetful") as (_, node),
        client.pool_of(node) as pool,
    ):
        assert (await pool.post(message)).result == 0
        monkeypatch.setattr(client, "POST_S", 0.8)
        shown = shown_id(message.own_id())
        with pytest.raises(Failure, match=rf"whether it holds {shown} is not known; `router capd get {shown}` tells"):
            await pool.post(message)
