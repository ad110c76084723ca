"""An app's key is renewed on a real node: what waits, what comes late, the running app, crashes, the audit."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from rig import NodeProcess, Rig, new_key, rig
from rigs.patience import HANG_S

from router import Node, NodeUnavailable, connect
from router.actors.process import program
from router.client.received import Received
from router.core.wire.crypto import PublicKey
from router.rig.process import run_command, until
from router.settings import keyring, renewed_keys
from router.settings.home import Home

LIFE_S = 3600


async def renew(node: NodeProcess, name: str = "laptop") -> PublicKey:
    done = await node.run("keys", "renew", name, "--json")
    assert done.code == 0, done.stderr
    return PublicKey(bytes.fromhex(done.json["address"]))


async def received(node: NodeProcess, count: int) -> list[bytes]:
    """Return what comes to the app of that name, and settle it."""
    found = []
    async with connect(home=node.home, as_name="laptop") as laptop:
        with trio.fail_after(HANG_S):
            async for message in laptop:
                found.append(message.body)
                if len(found) == count:
                    await message.settle()
                    break
    return found


async def audited(node: NodeProcess) -> dict[str, int]:
    done = await node.run("audit", str(node.home.path), "--json")
    assert done.code == 0, done.stderr + done.stdout
    return {name: done.json[name] for name in ("owed", "delivered", "unaccounted", "residual", "strays")}


async def test_away_it_loses_nothing_and_what_comes_to_the_old_address_comes_to_the_new_one(tmp_path: Path) -> None:
    group = new_key()
    async with rig(tmp_path) as found:
        node = found.node("node")
        await node.start()
        async with connect(home=node.home, as_name="laptop") as laptop:
            await laptop.join(group.public, timeout_s=HANG_S)
            old = laptop.key
        async with connect(home=node.home) as speaker:
            await speaker.send(old, b"1", ttl_s=LIFE_S, plain=True)
            id = await speaker.group(group).publish(b"2", ttl_s=LIFE_S)
            new = await renew(node)
            assert new != old and keyring.load(node.home, "laptop").public == new
            await speaker.send(old, b"3", ttl_s=LIFE_S, plain=True)
            await speaker.send(new, b"4", ttl_s=LIFE_S, plain=True)
            await speaker.group(group).publish(b"5", ttl_s=LIFE_S)
            [queued] = await node.ask("queue")
            assert (queued["recipient"], queued["messages"]) == (new.hex(), 5)
            waits = await node.run("why", id.hex())
            assert "laptop" in waits.stdout and "queued" in waits.stdout, waits.stdout
            assert await received(node, 5) == [b"1", b"2", b"3", b"4", b"5"]
        await node.until_drained()
        [row] = [one for one in (await node.run("keys", "--json")).json if one["name"] == "laptop"]
        assert (row["address"], row["former"], row["groups"]) == (new.hex(), [old.hex()], [group.public.hex()])
        why = json.loads((await node.run("why", id.hex(), "--json")).stdout)
        assert [(one["recipient"], one["state"]) for one in why["recipients"]] == [(old.hex(), "delivered")]
        await node.stop()
        assert await audited(node) == {"owed": 5, "delivered": 5, "unaccounted": 0, "residual": 0, "strays": 0}


async def test_a_running_app_signs_on_anew_by_itself_and_goes_on(tmp_path: Path) -> None:
    group = new_key()
    async with rig(tmp_path) as found:
        node = found.node("node")
        await node.start()
        got, said = list[bytes](), list[str]()
        async with (
            connect(home=node.home, as_name="laptop", on_problem=said.append) as laptop,
            connect(home=node.home, as_name="other") as other,
            trio.open_nursery() as nursery,
        ):
            await other.join(group, timeout_s=HANG_S)
            heard = await laptop.join(group, timeout_s=HANG_S)
            old = laptop.key

            async def listen() -> None:
                async for message in laptop:
                    got.append(message.body)

            nursery.start_soon(listen)
            new = await renew(node)

            async def has_new_key() -> bool:
                return laptop.is_up and laptop.key == new

            await until("the app signs on with its new key", has_new_key)
            await other.send(old, b"to the old address")
            await other.send(new, b"to the new one")
            await other.group(group).publish(b"to the group")
            await heard.publish(b"from the new key")

            async def has_all() -> bool:
                return len(got) == 3

            await until("all has come", has_all)
            async for message in other:
                assert message.body == b"from the new key"
                break
            nursery.cancel_scope.cancel()
        assert any("was renewed: its address is addr1" in one for one in said)


async def test_an_app_with_a_key_of_its_own_is_told(tmp_path: Path) -> None:
    async with rig(tmp_path) as found:
        node = found.node("node")
        await node.start()
        key = keyring.load_or_create(node.home, "laptop")
        await renew(node)
        with pytest.raises(NodeUnavailable, match="the key of this app was renewed"):
            async with connect(home=node.home, key=key):
                pass


async def heard(app: Node, count: int) -> list[tuple[bytes, bool, PublicKey | None]]:
    """Return what comes to an app: bodies, whether they were sealed, and their senders."""
    found = []
    with trio.fail_after(HANG_S):
        async for message in app.unicasts():
            found.append((message.body, message.sealed, message.sender))
            if len(found) == count:
                await message.settle()
                break
    return found


async def test_correspondents_write_to_the_new_address_sealed_as_soon_as_they_are_told(tmp_path: Path) -> None:
    """What was sealed to the old key's prekey while the app was away is opened; a stranger that has only the old
    address, and asks there, is told as well."""
    async with rig(tmp_path) as found:
        node = found.node("node")
        await node.start()
        async with connect(home=node.home, as_name="friend") as friend:
            async with connect(home=node.home, as_name="laptop") as laptop:
                old = laptop.key
                await friend.send(old, b"1")
                assert await heard(laptop, 1) == [(b"1", True, friend.key)]
                await laptop.send(friend.key, b"2")
                assert await heard(friend, 1) == [(b"2", True, old)]
            new = await renew(node)
            await friend.send(old, b"sealed to the old one")
            assert await node.queued(new) == 1
            async with connect(home=node.home, as_name="laptop") as laptop:
                assert await heard(laptop, 1) == [(b"sealed to the old one", True, friend.key)]
                await laptop.send(friend.key, b"by the new one")
                assert await heard(friend, 1) == [(b"by the new one", True, new)]
                await friend.send(old, b"to whoever has its place")
                assert await heard(laptop, 1) == [(b"to whoever has its place", True, friend.key)]
                async with connect(home=node.home, on_problem=print) as stranger:
                    await stranger.send(old, b"who are you")
                assert await heard(laptop, 1) == [(b"who are you", True, stranger.key)]


async def kept_waiting(found: Rig) -> tuple[NodeProcess, PublicKey]:
    """Return a node at which a message waits for an app that is away, and that app's key."""
    node = found.node("node")
    await node.start()
    async with connect(home=node.home, as_name="laptop") as laptop:
        old = laptop.key
    async with connect(home=node.home) as speaker:
        await speaker.send(old, b"1", ttl_s=LIFE_S, plain=True)
    return node, old


@pytest.mark.parametrize("is_taken", [False, True])
async def test_a_renewal_that_a_kill_cut_short_is_finished_at_the_next_start(tmp_path: Path, is_taken: bool) -> None:
    """Killed before the node has taken it, and after that, but before the files are changed."""
    async with rig(tmp_path) as found:
        node, old = await kept_waiting(found)
        keys = node.home.key_path.parent
        if is_taken:
            copy = (keys / "laptop.key").read_bytes()
            new = await renew(node)
            line = (keys / "laptop.key").read_text().strip()
            statement = (keys / "laptop.renewed").read_text().strip()
            await node.kill()
            (keys / "laptop.renewed").unlink()
            (keys / "laptop.key").write_bytes(copy)
            (keys / "laptop.renewing").touch(0o600)
            (keys / "laptop.renewing").write_text(f"{line} {statement}\n")
        else:
            await node.kill()
            done = await node.run("keys", "renew", "laptop")
            assert done.code == 3 and "is renewed when the node starts" in done.stderr
            new = renewed_keys.begun(keys)["laptop"].new
        await node.start()

        async def is_finished() -> bool:
            return not (keys / "laptop.renewing").exists()

        await until("the renewal is finished", is_finished)
        assert keyring.load(node.home, "laptop").public == new and keyring.former_addresses(node.home) == {
            old: "laptop"
        }
        assert await received(node, 1) == [b"1"]
        await node.stop()
        assert await audited(node) == {"owed": 1, "delivered": 1, "unaccounted": 0, "residual": 0, "strays": 0}


async def test_a_service_gets_another_key_by_one_command_while_apps_go_on(tmp_path: Path) -> None:
    """It runs apart, and answers from the new address what is sent to either; without a node it waits for the next
    start. Names of other keys are told the command that is theirs."""
    async with rig(tmp_path) as found:
        node = found.node("node")
        block = '[[node.services]]\nname = "echo"\nmodule = "services.echo"\nrun = "apart"\n'
        node.home.config_path.write_text(block)
        await node.start()
        old = keyring.load(node.home, "service-echo").public
        async with connect(home=node.home, as_name="laptop", when_down="queue") as laptop:

            async def answered_by(source: PublicKey, to: PublicKey) -> None:
                await laptop.send(to, b"hello", plain=True)
                with trio.fail_after(HANG_S):
                    answer = await anext(laptop.unicasts())
                assert (answer.source, answer.body) == (source, b"echo: hello")
                await answer.settle()

            await answered_by(old, old)
            done = await node.run("keys", "rotate", "echo", "--json")
            assert done.code == 0, done.stderr
            new = keyring.load(node.home, "service-echo").public
            assert (done.json["address"], done.json["former"]) == (new.hex(), old.hex()) and new != old
            for to in (old, new):
                await answered_by(new, to)
            for words, said in (
                (("renew", "node"), "keys rotate-node`"),
                (("rotate", "node"), "keys rotate-node`"),
                (("renew", "service-echo"), "keys rotate echo`"),
                (("rotate", "echo"), "give --again for yet another one"),
                (("rotate", "laptop"), "keys renew laptop`"),
                (("rotate", "web"), "its services are: echo"),
                (("renew", "nobody"), 'there is no key "nobody"'),
            ):
                refused = await node.run("keys", *words)
                assert refused.code == 2 and said in refused.stderr, refused.stderr
            await node.stop()
            later = await node.run("keys", "rotate", "service-echo", "--again")
            assert later.code == 3 and "gets its new key when the node starts" in later.stderr
            newest = renewed_keys.begun(node.home.key_path.parent)["service-echo"].new
            await node.start()
            await answered_by(newest, old)
        await node.until_drained()
        [row] = [one for one in (await node.run("keys", "--json")).json if one["name"] == "service-echo"]
        assert (row["address"], set(row["former"])) == (newest.hex(), {old.hex(), new.hex()})
        await node.stop()
        found_in_all = await audited(node)
        assert found_in_all == {"owed": 8, "delivered": 8, "unaccounted": 0, "residual": 0, "strays": 0}


async def test_a_key_is_renewed_at_the_node_of_another_home_for_two_programs_with_queue_and_grants(
    tmp_path: Path,
) -> None:
    """The program that runs signs on anew; one that has the old key by itself is told; what waits, and what the key may
    do there, is the new one's."""
    group = new_key()
    async with rig(tmp_path) as found:
        node, home = found.node("node"), Home(tmp_path / "apps")
        home.create("edge")
        old, url = keyring.load_or_create(home, "laptop"), f"unix://{node.home.socket_path}"
        node.knows(old.public, "laptop", grants=("join", "store"))
        renew_there = program("router", "--home", str(home.path), "keys", "renew", "laptop", "--url", url)
        absent = await run_command(renew_there)
        assert absent.code == 3 and "until then laptop keeps its key" in absent.stderr
        await node.start()
        async with connect(home=home, as_name="laptop", url=url) as laptop:
            await laptop.join(group.public, timeout_s=HANG_S)
        async with connect(home=node.home) as speaker:
            await speaker.send(old.public, b"waits", ttl_s=LIFE_S, plain=True)
            done = await run_command(renew_there)
            assert done.code == 0, done.stderr
            new = keyring.load(home, "laptop").public
            assert new != old.public and await node.queued(new) == 1
            await speaker.group(group).publish(b"to the group", ttl_s=LIFE_S)
            with pytest.raises(NodeUnavailable, match="the key of this app was renewed"):
                async with connect(home=home, key=old, url=url):
                    pass
            async with connect(home=home, as_name="laptop", url=url) as laptop:
                got = [message.body async for message in first_of(laptop, 2)]
                assert (laptop.key, got) == (new, [b"waits", b"to the group"])
                done = await run_command(renew_there)
                assert done.code == 0, done.stderr

                async def has_signed_on_anew() -> bool:
                    return laptop.is_up and laptop.key == keyring.load(home, "laptop").public != new

                await until("the app signs on with its newest key", has_signed_on_anew)
        far = await run_command((*renew_there[:-1], "tls://127.0.0.1:4100"))
        assert far.code == 2 and "from its owner alone" in far.stderr
        [row] = [one for one in await node.ask("peers") if one["name"] == "laptop"]
        assert row["grants"] == ["join", "store"] and row["address"] == laptop.key.hex()


async def first_of(app: Node, count: int) -> AsyncIterator[Received]:
    async for message in app:
        yield message
        count -= 1
        if not count:
            await message.settle()
            return
