"""A core invites laptops that know nothing of it: they are let in once, through kills of both, and exchange
messages."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner, Result
from rig import NodeProcess, Rig, rig

from router.cli import main, redeem
from router.cli.exits import Exit
from router.core.wire.text import key_text
from router.settings import keyring, received

GROUP = "friends"
STARTED_S = 1.5  # about the time in which a node starts and is let in


async def typed(node: NodeProcess, *words: str) -> Result:
    """Run a command on the node's home as the command line does, without starting a process for it."""
    line = ["--home", str(node.home.path), *words]
    return await trio.to_thread.run_sync(lambda: CliRunner().invoke(main, line))


async def invite(core: NodeProcess, *more: str) -> str:
    found = await typed(core, "invite", "--at", core.url, *more, "--json")
    assert found.exit_code == 0, found.stderr
    link: str = json.loads(found.stdout)["link"]
    return link


async def until_joined(laptop: NodeProcess) -> None:
    await laptop.until_answer("the core's yes", "invited", lambda rows: [one["outcome"] for one in rows] == ["joined"])


async def until_told(laptop: NodeProcess, link: str) -> str:
    """Return the line by which `peer add` reports an obstacle to an answer."""
    await laptop.until_answer("a cause", "invited", lambda rows: any(one["cause"] for one in rows))
    done = await typed(laptop, "peer", "add", link, "--yes", "--timeout", "0")
    assert done.exit_code == Exit.TIMED_OUT, done
    return done.stderr


async def started(found: Rig, *names: str) -> list[NodeProcess]:
    nodes = [found.node(name) for name in names]
    async with trio.open_nursery() as nursery:
        for node in nodes:
            nursery.start_soon(node.start)
    return nodes


async def used(core: NodeProcess) -> list[tuple[int, int]]:
    return [(one["used"], one["uses"]) for one in json.loads((await typed(core, "invite", "list", "--json")).stdout)]


async def test_two_laptops_come_by_one_link_through_kills_and_hear_each_other(tmp_path: Path) -> None:
    async with rig(tmp_path) as found:
        core = found.node("core", "core")
        await core.start()
        one, other = await started(found, "one", "other")
        link = await invite(core, "--group", GROUP, "--uses", "2")
        await core.kill()

        adding = found.process("add", *one.served_by, "--home", str(one.home.path), "peer", "add", link, "--yes")
        await adding.launch()
        await one.until_answer("the taking of the link", "invited", bool)
        adding.signal(signal.SIGINT)
        assert await adding.wait() == Exit.INTERRUPTED, adding.said()
        assert "the node goes on asking; `router --home" in adding.said()
        waiting = await typed(one, "peer", "add", link, "--yes", "--timeout", "0", "--json")
        assert (waiting.exit_code, json.loads(waiting.stdout)["outcome"], json.loads(waiting.stdout)["reason"]) == (
            Exit.TIMED_OUT,
            "waiting",
            None,
        )
        unreached = await until_told(one, link)
        place = core.url.removeprefix("tls://")
        assert f"has not let us in yet: {place} cannot be reached: connection refused" in unreached
        assert "\nthe node goes on asking until " in unreached
        assert [kept.outcome for kept in received.received(one.home)] == ["waiting"]
        apps, heard = (await one.ask("status"))["peers"], list[str]()

        async def waits() -> None:
            heard.append(await redeem.look(one.home, received.received(one.home)[0].id, redeem.TIMEOUT_S))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(waits)
            await one.until_answer("the one that waits", "status", lambda status: status["peers"] > apps)
            await one.kill()
        assert heard == [redeem.STOPPED]
        await core.start()
        await one.start()
        await until_joined(one)
        await core.kill()
        await one.kill()
        await core.start()
        await one.start()
        assert await used(core) == [(1, 2)]

        code = tmp_path / "link.txt"
        code.write_text(link)
        joined = await typed(other, "peer", "add", str(code), "--yes", "--json")
        assert joined.exit_code == 0, joined.stderr
        assert json.loads(joined.stdout) | {"address": ""} == {
            "address": "", "name": json.loads(joined.stdout)["name"], "outcome": "joined", "reason": None,
            "rights": ["join", "store", "relay"], "group": GROUP, "had": False,
        }  # fmt: skip
        again = await typed(other, "peer", "add", link, "--yes", "--json")
        assert (again.exit_code, json.loads(again.stdout)["outcome"]) == (0, "joined")
        assert await used(core) == [(2, 2)]
        for laptop in (one, other):
            [kept] = received.received(laptop.home)
            assert (kept.outcome, kept.link, kept.group) == ("joined", "", GROUP)
            told = (await typed(laptop, "why", kept.id)).stdout
            assert "let-in; rights join,store,relay" in told and key_text("addr", core.address) in told
            assert keyring.groups(laptop.home)[GROUP].seed is not None

        listener = found.process(
            "sub", *other.served_by, "--home", str(other.home.path), "sub", GROUP, "--count", "1", "--json"
        )
        await listener.launch()
        group = keyring.groups(other.home)[GROUP].group
        await core.until_joined(group, other.address)
        said = await typed(one, "pub", GROUP, "hello")
        assert said.exit_code == 0, said.stderr
        assert json.loads(await listener.line())["body"] == "hello"
        assert await listener.wait() == 0
        assert len(json.loads((await typed(core, "peer", "list", "--json")).stdout)) == 2


@pytest.mark.parametrize("rounds", [1, pytest.param(40, marks=pytest.mark.long)])
async def test_a_guest_that_is_killed_while_it_is_let_in_loses_neither_the_answer_nor_the_group(
    tmp_path: Path, rounds: int
) -> None:
    """The guest is killed at a random moment between its start and the answer. Each invitation has one use, brings a
    group, and is for a separate guest, because a guest with the rights already takes no use."""
    chance = random.Random(14)
    async with rig(tmp_path) as found:
        core = found.node("core", "core")
        await core.start()
        for number in range(rounds):
            laptop = found.node(f"laptop-{number}")
            link = await invite(core, "--group", f"{chance.getrandbits(64):016x}")
            assert (await typed(laptop, "peer", "add", link, "--yes")).exit_code == Exit.TIMED_OUT
            for _ in range(2):
                await laptop.launch()
                await trio.sleep(chance.random() * STARTED_S)
                await laptop.kill()
            await laptop.start()
            await until_joined(laptop)
            await laptop.kill()
            [kept] = received.received(laptop.home)
            assert (len(keyring.groups(laptop.home)), kept.outcome, kept.link) == (1, "joined", "")
            assert await used(core) == [(1, 1)] * (number + 1)


async def test_who_is_not_let_in_is_told_precisely_why(tmp_path: Path) -> None:
    async with rig(tmp_path) as found:
        core = found.node("core", "core")
        await core.start()
        first, late, barred = await started(found, "first", "late", "barred")
        shown = key_text("addr", core.address)
        link, revoked = await invite(core), await invite(core)
        assert (await typed(first, "peer", "add", link, "--yes")).exit_code == 0
        rows: list[dict[str, Any]] = json.loads((await typed(core, "invite", "list", "--json")).stdout)
        await typed(core, "invite", "revoke", next(one["id"] for one in rows if not one["used"]))

        def told(word: str, sentence: str) -> str:
            remedy = f"remove its entry by `router --home {late.home.path} peer remove {shown}`"
            return f"{shown} refused the invitation ({word}): {sentence} Ask for a new one, or {remedy}.\n"

        over = await typed(late, "peer", "add", link, "--yes")
        assert over.exit_code == Exit.REFUSED
        assert over.stderr.endswith(told("invite:used-up", "All uses of the invitation are taken by other guests."))
        listed = (await typed(late, "peer", "list")).stdout
        assert "it refused our invitation: all uses of the invitation are taken by other guests" in listed
        assert json.loads((await typed(late, "status", "--json")).stdout)["invited"][0]["reason"] == "invite:used-up"
        taken_back = await typed(late, "peer", "add", revoked, "--yes")
        assert taken_back.exit_code == Exit.REFUSED
        assert taken_back.stderr.endswith(told("invite:revoked", "The operator has revoked the invitation."))

        await typed(core, "peer", "block", barred.address.hex())
        another = await invite(core)
        await typed(barred, "peer", "add", another, "--yes", "--timeout", "0")
        assert f"{shown} has not let us in yet: it does not let us in" in await until_told(barred, another)
        assert sorted(await used(core)) == [(0, 1), (0, 1), (1, 1)], "who is blocked takes no use"
        await typed(core, "peer", "unblock", barred.address.hex())
        assert (await typed(barred, "peer", "add", another, "--yes")).exit_code == 0
        assert sorted(await used(core)) == [(0, 1), (1, 1), (1, 1)]


async def test_who_was_let_in_asks_again_and_hears_what_holds_now(tmp_path: Path) -> None:
    async with rig(tmp_path) as found:
        core, laptop = found.node("core", "core"), found.node("laptop")
        await core.start()
        await laptop.start()
        link = await invite(core)
        assert (await typed(laptop, "peer", "add", link, "--yes")).exit_code == 0
        await core.until_answer(
            "the guest's block", "invites", lambda rows: [each["written"] for each in rows[0]["guests"]] == [True]
        )
        [row] = json.loads((await typed(core, "invite", "list", "--json")).stdout)
        await typed(core, "invite", "revoke", row["id"])
        kept = await typed(laptop, "peer", "add", link, "--yes")
        assert (kept.exit_code, "lets us join, store, relay" in kept.stdout) == (0, True), (
            "revoking takes no right away"
        )
        assert (await typed(core, "peer", "remove", laptop.address.hex())).exit_code == 0
        gone = await typed(laptop, "peer", "add", link, "--yes")
        assert gone.exit_code == Exit.REFUSED and "neighbour now" not in gone.stdout
        assert "refused the invitation (invite:revoked)" in gone.stderr
        other = await invite(core)
        assert (await typed(laptop, "peer", "add", other, "--yes")).exit_code == 0
        await core.until_answer(
            "the block", "invites", lambda rows: all(each["written"] for one in rows for each in one["guests"])
        )
        assert (await typed(core, "peer", "remove", laptop.address.hex())).exit_code == 0
        gone = await typed(laptop, "peer", "add", other, "--yes")
        assert gone.exit_code == Exit.REFUSED
        assert "(invite:removed): The operator has removed this guest since it was let in." in gone.stderr
