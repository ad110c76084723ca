"""A core invites laptops, which know nothing of it: they are let in once, through kills of both, and talk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import trio
from click.testing import CliRunner, Result
from rig import NodeProcess, Rig, rig

from router.cli import main
from router.cli.exits import Exit
from router.core.wire.text import key_text
from router.settings import keyring, received

GROUP = "friends"


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
    """Return what `peer add` says once something stands in the way of an answer."""
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
        await one.kill()
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
            "rights": ["join", "store", "relay"], "group": GROUP,
        }  # fmt: skip
        again = await typed(other, "peer", "add", link, "--yes", "--json")
        assert (again.exit_code, json.loads(again.stdout)["outcome"]) == (0, "joined")
        assert await used(core) == [(2, 2)]
        for laptop in (one, other):
            [kept] = received.received(laptop.home)
            assert (kept.outcome, kept.link, kept.group) == ("joined", "", GROUP)
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
