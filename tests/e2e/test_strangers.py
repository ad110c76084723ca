"""A stranger and a replayer change nothing: no subscription, route, queue, id or delivery; and a stranger gets only
`not-authorised`, whatever it writes to."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bad_bytes import forged
from disk import read_disk
from raw_link import linked, multicast, say_bytes
from rig import NodeProcess, Rig, new_key, rig

from router.core.wire.admin import Inquiry, encode_inquiry
from router.core.wire.control import Carried, Control, Join, Leave, Pull
from router.core.wire.crypto import SigningKey
from router.core.wire.link_items import Goodbye
from router.core.wire.message import message_id, with_via
from router.core.wire.reasons import Reason


@dataclass
class Scene:
    """A core with a client A (on TLS) and a local app, both members of one group; the app is away, and messages wait
    for it.

    `recorded`: A's messages, one by one, and a unicast of the app.
    """

    rig: Rig
    core: NodeProcess
    a: SigningKey
    app: SigningKey
    peer: SigningKey
    group: SigningKey
    recorded: dict[str, bytes]

    async def state(self) -> dict[str, Any]:
        """Return everything that must not change: the output of the operator's commands, and the content of the
        disk."""
        status, queue, groups = [(await self.core.run(word, "--json")).json for word in ("status", "queue", "groups")]
        await self.core.freeze()
        disk = read_disk(self.core.home, self.core.address, self.rig.base / "scratch")
        self.core.thaw()
        ended = ("accepted", "delivered", "acked", "dropped", "expired")
        return {
            "queue": [{key: value for key, value in row.items() if key != "oldest_s"} for row in queue],
            "groups": sorted(json.dumps(row) for row in groups),
            "counters": {name: status["counters"][name] for name in ended},
            "held": status["queue"],
            "accepted": disk.accepted,
            "ends": disk.ledger.ends,
            "pending": disk.pending,
            "routes": sorted((one.destination, one.neighbour, one.until_s) for one in disk.recovered.routes),
            "subscriptions": sorted((one.group, one.subscriber) for one in disk.recovered.subscriptions),
            "locals": sorted(disk.recovered.locals),
            "index": disk.recovered.index_entries,
        }


@asynccontextmanager
async def scene(base: Path) -> AsyncIterator[Scene]:
    async with rig(base) as found:
        core = found.node("core", "core", {"log.segment_s": 1})
        a, app, peer, group = new_key(), new_key(), new_key(), new_key()
        core.knows(a.public, "a", grants=("join", "store", "relay"))
        core.knows(peer.public, "peer")
        await core.start()
        recorded: dict[str, bytes] = {}
        async with linked(core, app, durable=True) as local, linked(core, a, tls=True) as client:
            assert await local.join(group.public)
            recorded["a unicast of the local app"] = local.unicast(a.public, b"from the app")
            await local.publish(recorded["a unicast of the local app"])
            recorded["JOIN"] = client.says(Join(group.public, False))
            recorded["JOIN of another group"] = client.says(Join(new_key().public, False))
            recorded["LEAVE"] = client.says(Leave(group.public))
            recorded["unicast"] = client.unicast(app.public, b"to the app")
            recorded["multicast"] = multicast(group, b"to the group")
            await client.publish(recorded["JOIN"], recorded["unicast"], recorded["multicast"])
            await local.until("the app has both", lambda: len(local.got) == 2)
            await core.until_drained()
        async with linked(core, a, tls=True) as client:
            waiting = [client.unicast(app.public, b"waits"), multicast(group, b"waits too")]
            recorded["a unicast that waits"], recorded["a multicast that waits"] = waiting
            assert await client.publish(*waiting) == [None, None]
        yield Scene(found, core, a, app, peer, group, recorded)


async def test_a_stranger_changes_nothing(tmp_path: Path) -> None:
    async with scene(tmp_path) as found:
        before = await found.state()
        async with linked(found.core, new_key(), tls=True) as stranger:
            own = new_key()
            attempts = {
                "a message to the group": multicast(found.group, b"with the group's own key"),
                "a message to a group of its own": multicast(own, b"x"),
                "the same over another router": with_via(multicast(own, b"y"), found.a.public),
                "a unicast to the local app": stranger.unicast(found.app.public, b"x"),
                "a unicast to the client": stranger.unicast(found.a.public, b"x"),
                "a unicast to nobody": stranger.unicast(new_key().public, b"x"),
                "a unicast to somebody over the client": with_via(
                    stranger.unicast(new_key().public, b"x"), found.a.public
                ),
                "a message carried": stranger.says(Carried(multicast(found.group, b"carried"))),
                "a message that is none": b"\x84\x00\xa0\x40\x40",
                "a forged message": forged(found.recorded["multicast"]),
                "an expired message": multicast(found.group, b"x", expiry_s=-120),
            }
            for what, wire in attempts.items():
                assert await stranger.publish(wire) == [Reason.NOT_AUTHORISED], what
            assert {text for _, text in stranger.refused.values()} == {""}
            forever = multicast(found.group, b"x", expiry_s=10**8)
            assert await stranger.publish(forever) == [Reason.EXPIRY_TOO_FAR], "which is the same for whatever it sends"
            asked: list[Control] = [Join(found.group.public, False), Join(own.public, True), Leave(found.group.public)]
            asked.append(Pull(found.group.public, message_id(found.recorded["multicast"])))
            for control in asked:
                assert await stranger.publish(stranger.says(control)) == [None], control
            inquiry = encode_inquiry(Inquiry("status"))
            assert await stranger.publish(stranger.unicast(found.core.address, inquiry)) == [Reason.NOT_AUTHORISED]
            assert stranger.heard_nothing, "greeted, and no more"
        assert await found.state() == before


async def test_a_replayer_changes_nothing(tmp_path: Path) -> None:
    """A's frames are sent once more, by a stranger, a known peer and another local app, before and after a restart."""
    async with scene(tmp_path) as found:
        before = await found.state()
        for _ in range(2):
            await found.core.until_connected(found.a.public, up=False)
            async with linked(found.core, new_key(), tls=True) as stranger:
                for what, wire in found.recorded.items():
                    assert await stranger.publish(wire) == [Reason.NOT_AUTHORISED], what
                    assert await stranger.publish(with_via(wire, found.a.public)) == [Reason.NOT_AUTHORISED], what
                assert stranger.heard_nothing
            async with linked(found.core, found.peer, tls=True, role="router") as peer:
                for what, wire in found.recorded.items():
                    expected = Reason.NOT_LOCAL_SOURCE if what == "a unicast of the local app" else None
                    if what.startswith(("JOIN", "LEAVE")):
                        expected = Reason.NOT_AUTHORISED
                    assert await peer.publish(wire) == [expected], what
                carried = Carried(found.recorded["multicast"])
                assert await peer.publish(peer.says(carried)) == [None]
                assert peer.heard_nothing
            async with linked(found.core, new_key()) as local:
                for what, wire in found.recorded.items():
                    expected = None if "multicast" in what else Reason.NOT_LOCAL_SOURCE
                    assert await local.publish(wire) == [expected], what
                assert local.heard_nothing
            assert without_lives(await found.state()) == without_lives(before)
            await found.core.kill()
            await found.core.start()
        await nothing_is_lost(found)


def without_lives(state: dict[str, Any]) -> dict[str, Any]:
    """Return the state without counters, which restart with the node."""
    return {key: value for key, value in state.items() if key != "counters"}


async def nothing_is_lost(found: Scene) -> None:
    """Check that the app gets the messages that waited for it, and nothing else."""
    async with linked(found.core, found.app, durable=True) as local:
        await local.until("what waited comes", lambda: len(local.got) == 2)
        waited = [message_id(found.recorded[f"a {kind} that waits"]) for kind in ("unicast", "multicast")]
        assert sorted(local.ids) == sorted(waited)
        await found.core.until_drained()
        assert len(local.ids) == 2


async def test_a_connection_cannot_be_replayed(tmp_path: Path) -> None:
    """Everything that an app wrote to the owner's socket, hello, proof, JOIN and message, is written once more."""
    async with scene(tmp_path) as found:
        key, group = new_key(), new_key()
        async with linked(found.core, key) as app:
            await app.join(group.public)
            await app.publish(app.unicast(found.app.public, b"once"))
            written = bytes(app.written)
        await found.core.until_connected(key.public, up=False)
        before = await found.state()
        *_, last = await say_bytes(found.core, written, key=key)
        assert isinstance(last, Goodbye)
        assert last.reason == Reason.BAD_SIGNATURE
        assert await found.state() == before


async def test_an_edge_lets_no_stranger_in(tmp_path: Path) -> None:
    async with rig(tmp_path) as found:
        edge, group = found.node("edge", listens=True), new_key()
        await edge.start()
        async with linked(edge, new_key(), tls=True) as stranger:
            await stranger.send(stranger.says(Join(group.public, False)), multicast(group, b"x"))
            goodbye = await stranger.until_closed()
        assert goodbye == (Reason.NOT_AUTHORISED, "")
        assert await edge.ask("groups") == []
        assert (await edge.ask("status"))["counters"]["accepted"] == 0
