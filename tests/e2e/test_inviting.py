"""Invitations on real processes: a use binds one key, whichever process is killed, and the file holds the grants."""

from __future__ import annotations

import json
import random
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from raw_link import RawLink, linked
from rig import NodeProcess, new_key, rig
from rigs.patience import HANG_S

from router.core.neighbours.directory import Standing
from router.core.wire.crypto import PublicKey, SigningKey, digest
from router.core.wire.reasons import INVITE_NO_ROOM, INVITE_REMOVED, INVITE_USED_UP
from router.core.wire.redemption import Redeem, Redeemed, encode_redemption
from router.core.wire.text import key_text
from router.rig.app_link import LinkOver
from router.rig.process import POLL_S, RigFailed, pause
from router.settings.config import load
from router.transport.contract import ConnectFailed, StreamBroken

GUESTS, USES = 8, 3
MOMENT_S = 0.12  # about the time that eight guests take to redeem
GRANTED = ("join", "store", "relay")


async def ordered(core: NodeProcess, word: str, argument: str = "") -> Any:
    """Return the answer to the operator of that node."""
    async with linked(core, new_key()) as operator:
        answer = await operator.ask(word, argument)
    assert answer is not None
    return json.loads(answer)


async def invitation(core: NodeProcess, uses: int) -> bytes:
    """Make an invitation; return its secret."""
    secret = secrets.token_bytes(16)
    said = {"id": digest(secret).hex(), "rights": GRANTED, "uses": uses, "until_s": int(time.time()) + 3600}
    assert await ordered(core, "invite", json.dumps(said)) == {"invited": digest(secret).hex()}
    return secret


async def listed(core: NodeProcess, secret: bytes) -> dict[str, Any]:
    rows: list[dict[str, Any]] = await ordered(core, "invites")
    return next(one for one in rows if one["id"] == digest(secret).hex())


async def until_written(core: NodeProcess, secret: bytes) -> set[PublicKey]:
    """Wait until the file has all guests of the invitation; return them."""
    began = trio.current_time()
    with trio.fail_after(HANG_S):
        row = await listed(core, secret)
        while not all(guest["written"] for guest in row["guests"]):
            await pause(began)
            row = await listed(core, secret)
    assert len(row["guests"]) == row["used"]
    return {PublicKey(bytes.fromhex(guest["address"])) for guest in row["guests"]}


def in_file(core: NodeProcess) -> dict[PublicKey, str]:
    """Return the names of the neighbours in the file, each of which must have the granted rights."""
    found = load(core.home.config_path)[0].peers
    assert all(set(one.grant) == set(GRANTED) for one in found)
    return {one.address: one.name for one in found}


@asynccontextmanager
async def inviting(base: Path, rounds: int = 1) -> AsyncIterator[NodeProcess]:
    """Run a node that lets no strangers in."""
    async with rig(base, rounds * HANG_S) as found:
        settings = {"node.accept": "known", "limits.handshakes_per_s_per_prefix": 0, "limits.handshakes_per_s": 0}
        core = found.node("core", "edge", settings, listens=True)
        await core.start()
        yield core


def guest(core: NodeProcess, key: SigningKey) -> Any:
    return linked(core, key, tls=True, role="router")


async def test_a_guest_that_is_killed_redeems_again_same_answer_one_use(tmp_path: Path) -> None:
    async with inviting(tmp_path) as core:
        key, other, secret = new_key(), new_key(), await invitation(core, 1)
        async with guest(core, key) as link:
            await link.send(_redemption(link, secret))  # and dies before it hears the answer
        first = await answered(core, key, secret)
        assert first == Redeemed(secret, None, GRANTED)
        await core.kill()
        await core.start()
        async with guest(core, key) as link:
            assert await link.redeem(secret) == first
            assert await link.join(new_key().public), "it may do what it was granted"
        async with guest(core, other) as link:
            assert await link.redeem(secret) == Redeemed(secret, int(INVITE_USED_UP))
        told = (await core.run("why", digest(secret).hex()[:12])).stdout
        for change, whom in (("redeemed; rights join,relay,store; left 0", key), ("refused; because", other)):
            address = key_text("addr", whom.public)[:16]
            assert any(change in line and address in line for line in told.splitlines()), told
        assert await until_written(core, secret) == {key.public} == set(in_file(core))
        peers = await core.ask("peers")
        [row] = [one for one in peers if one["address"] == key.public.hex()]
        assert (row["standing"], row["learned"]) == (Standing.CLIENT.value, "invited"), "also once it is written"


async def answered(core: NodeProcess, key: SigningKey, secret: bytes) -> Redeemed:
    """Redeem on one link after another until one is answered; an answer to an earlier request may end a link, as it
    changes rights."""
    with trio.fail_after(HANG_S):
        while True:
            async with guest(core, key) as link:
                try:
                    found: Redeemed = await link.redeem(secret)
                except RigFailed:
                    continue
                return found


def _redemption(link: RawLink, secret: bytes) -> bytes:
    return link.unicast(link.router, encode_redemption(Redeem(secret)), ttl_s=0)


async def test_a_file_that_cannot_be_written_is_said_once_and_the_grant_counts(tmp_path: Path) -> None:
    async with inviting(tmp_path) as core:
        key, secret = new_key(), await invitation(core, 1)
        core.home.config_path.chmod(0o400)
        async with guest(core, key) as link:
            assert (await link.redeem(secret)).reason is None
        await core.until_answer("the problem", "status", lambda status: bool(status["guests"]["problem"]))
        shown = (await core.run("status")).stdout
        read_only = f"not in router.toml: {core.home.config_path} is read-only; allow its owner to write it"
        assert f"guests       1 guest is let in by invitation, and {read_only}" in shown
        assert read_only in (await core.run("config", "check")).stderr
        [line] = [one for one in (await core.run("doctor")).stdout.splitlines() if one.startswith("BAD  guests ")]
        assert read_only in line and "`router --home" in line and "peer remove` ends the rights of one" in line
        await core.kill()
        assert core.said().count("guests are let in, but not written down") == 1
        await core.start()
        async with guest(core, key) as link:
            assert await link.join(new_key().public), "it counts from the store, also after a crash"
        core.home.config_path.chmod(0o600)
        assert (await core.run("peer", "add", new_key().public.hex(), "--grant", ",".join(GRANTED))).code == 0
        assert await until_written(core, secret) == {key.public} and key.public in in_file(core)
        assert (await core.run("send", key.public.hex(), "hello", "--plain")).code == 0
        told = await core.run("invite", "revoke", digest(secret).hex()[:12], "--with-guests")
        assert "1 guest of it is removed; 1 message that waited for them has ended" in told.stdout, told.stderr
        said = f"1 message for the guests of {digest(secret).hex()[:8]} waits here and will end: dropped, reason left"
        assert told.code == 0 and said in told.stderr
        await core.kill()
        await core.start()
        assert key.public not in in_file(core)
        await core.until_answer(
            "its removal", "peers", lambda rows: key.public.hex() not in [r["address"] for r in rows]
        )


async def test_beyond_the_room_for_guests_the_next_hears_why_and_comes_in_once_there_is(tmp_path: Path) -> None:
    async with rig(tmp_path) as found:
        core = found.node("core", "core", settings={"limits.guests_max": 1})
        await core.start()
        first, second, secret = new_key(), new_key(), await invitation(core, 2)
        assert (await answered(core, first, secret)).reason is None
        await until_written(core, secret)
        for _ in range(2):
            assert await answered(core, second, secret) == Redeemed(secret, int(INVITE_NO_ROOM))
        shown = (await core.run("status")).stdout
        assert "no further guest is let in: limits.guests_max allows 1 neighbour; raise it and start" in shown
        assert "reasons      2 invite:no-room" in shown
        assert (await core.run("peer", "remove", key_text("addr", first.public))).code == 0
        assert (await answered(core, second, secret)).reason is None


async def test_a_guest_of_one_link_takes_no_use_of_another_through_kills(tmp_path: Path) -> None:
    async with inviting(tmp_path) as core:
        key, first, second = new_key(), await invitation(core, 1), await invitation(core, 1)
        async with guest(core, key) as link:
            assert await link.redeem(first) == Redeemed(first, None, GRANTED)
        for is_killed in (True, False):
            async with guest(core, key) as link:
                await link.send(_redemption(link, second))
                if is_killed:
                    await core.kill()
                else:
                    assert await link.redeem(second) == Redeemed(second, None, GRANTED, had=True)
            if is_killed:
                await core.start()
            assert (await listed(core, second))["used"] == 0
        async with guest(core, new_key()) as link:
            assert await link.redeem(second) == Redeemed(second, None, GRANTED), "its use is there for somebody else"


async def test_a_guest_that_is_not_in_the_file_is_removed_at_the_running_node(tmp_path: Path) -> None:
    async with inviting(tmp_path) as core:
        key, secret = new_key(), await invitation(core, 2)
        core.home.config_path.chmod(0o400)
        async with guest(core, key) as link:
            assert (await link.redeem(secret)).reason is None
        address = key_text("addr", key.public)
        await core.until_answer("the problem", "status", lambda status: bool(status["guests"]["problem"]))
        removed = await core.run("peer", "remove", address)
        assert (removed.code, removed.stdout) == (0, f"{address} is no neighbour any more\n"), removed
        assert key.public.hex() not in [one["address"] for one in await core.ask("peers")]
        again = await core.run("peer", "remove", address)
        assert again.code == 2 and f"{address} is no peer in this file" in again.stderr
        await core.kill()
        await core.start()
        core.home.config_path.chmod(0o600)
        async with guest(core, key) as link:
            assert (await link.redeem(secret)).reason == INVITE_REMOVED
        assert not in_file(core)


class Round:
    """Eight guests redeem an invitation of three uses at once, until each is answered, while the core is killed."""

    def __init__(self, core: NodeProcess, secret: bytes, chance: random.Random) -> None:
        self.core = core
        self.secret = secret
        self.chance = chance
        self.answers: dict[PublicKey, Redeemed] = {}

    async def run(self, kills: int) -> None:
        with trio.fail_after(HANG_S):
            async with trio.open_nursery() as nursery:
                for _ in range(GUESTS):
                    nursery.start_soon(self._guest, new_key())
                for _ in range(kills):
                    await trio.sleep(self.chance.random() * MOMENT_S)
                    await self.core.kill()
                    await self.core.start()

    async def _guest(self, key: SigningKey) -> None:
        while key.public not in self.answers:
            try:
                async with guest(self.core, key) as link:
                    self.answers[key.public] = await link.redeem(self.secret)
            except (RigFailed, ConnectFailed, StreamBroken, LinkOver):  # the core was killed, or is not back yet
                await trio.sleep(POLL_S)

    async def check(self) -> set[PublicKey]:
        """Check that exactly three were accepted, each with one use and one grant; return them."""
        told_yes = {key for key, answer in self.answers.items() if answer.reason is None}
        refused = [answer.reason for answer in self.answers.values() if answer.reason is not None]
        assert refused == [INVITE_USED_UP] * (GUESTS - USES)
        assert await until_written(self.core, self.secret) == told_yes
        assert (await listed(self.core, self.secret))["used"] == USES == len(told_yes)
        return told_yes


@pytest.mark.parametrize("rounds", [2, pytest.param(100, marks=pytest.mark.long)])
async def test_never_a_fourth_guest_on_three_uses(tmp_path: Path, rounds: int) -> None:
    chance, let_in = random.Random(rounds), set[PublicKey]()
    async with inviting(tmp_path, rounds) as core:
        for _ in range(rounds):
            one = Round(core, await invitation(core, USES), chance)
            await one.run(kills=chance.choice((1, 1, 2)))
            let_in |= await one.check()
            assert set(in_file(core)) == let_in, "never a grant without a use, or a use without a grant"
