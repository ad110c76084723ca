"""Bad input of every kind against a real node: it is refused with a machine-readable reason, while two well-behaved
apps exchange messages undisturbed."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import pytest
import trio
from bad_bytes import BAD_MESSAGES, bad_bytes
from pair import FRAME_BYTES_MAX, HELLO_S, scene, undisturbed
from raw_link import linked, multicast, say_bytes
from rig import new_key, rig
from rigs.patience import HANG_S

from router import NodeUnavailable, connect
from router.core.wire.codec import frame
from router.core.wire.control import Join
from router.core.wire.crypto import MessageId
from router.core.wire.link_items import Goodbye
from router.core.wire.message import message_id
from router.core.wire.reasons import Reason
from router.core.wire.text import key_text, short
from router.rig.process import until
from router.transport import contract as transport
from router.transport.contract import StreamBroken

OVER = pytest.mark.parametrize(
    "tls", [pytest.param(True, id="tls"), pytest.param(False, id="unix", marks=pytest.mark.long)]
)
"""Behind its transport a connection is the same: quickly over one of them."""


def ids(*wires: bytes) -> list[MessageId]:
    return [message_id(wire) for wire in wires]


@OVER
async def test_bad_messages_are_refused_one_by_one(tls: bool, tmp_path: Path, subtests: pytest.Subtests) -> None:
    async with scene(tmp_path) as found:
        key = found.client if tls else new_key()
        async with linked(found.core, key, tls=tls) as link:
            for bad in BAD_MESSAGES:
                with subtests.test(bad.name):
                    good = [multicast(found.group, os.urandom(8)) for _ in range(2)]
                    before = (await found.core.ask("status"))["reasons"]
                    reasons = await link.publish(good[0], bad.make(link, found.group), good[1])
                    assert reasons == [None, bad.reason, None]
                    await found.listener.until_got(*good)
                    assert found.listener.ids[-2:] == ids(*good)
                    after = (await found.core.ask("status"))["reasons"]
                    assert after[bad.reason.word] == before.get(bad.reason.word, 0) + 1
                    await found.pair.goes_on()
            with subtests.test("replayed"):
                good = [multicast(found.group, b"once"), multicast(found.group, b"the end")]
                assert await link.publish(good[0], good[0]) == [None, None]
                assert await link.publish(good[0], good[1]) == [None, None]
                await found.listener.until_got(*good)
                assert found.listener.ids[-2:] == ids(*good)
                assert len(set(found.listener.ids)) == len(found.listener.ids)
            assert (len(link.got), link.ended) == (0, None)


@OVER
async def test_what_no_neighbour_may_say_ends_its_connection(
    tls: bool, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    async with scene(tmp_path) as found:
        for bad in bad_bytes(FRAME_BYTES_MAX):
            with subtests.test(bad.name):
                key = found.client if tls else new_key()
                async with linked(found.core, key, tls=tls) as link:
                    good = multicast(found.group, bad.name.encode())
                    assert await link.publish(good) == [None]
                    just_before = multicast(found.group, bad.name.encode() + b", just before")
                    await link.send(just_before, then=bad.data)
                    ended = await link.until_closed()
                    assert ended is not None
                    assert ended.reason == bad.reason
                    assert ended.text
                await found.listener.until_got(good, just_before)
                await found.pair.goes_on()
            with subtests.test(f"{bad.name}, instead of a hello"):
                *_, last = await say_bytes(found.core, bad.data, key=new_key(), tls=tls)
                assert isinstance(last, Goodbye)
                await found.pair.goes_on()
        with subtests.test("a frame that is cut off"):
            async with linked(found.core, found.client, tls=True) as link:
                await link.write([b"\x59\x01\x00" + bytes(100)])
            await found.core.until_connected(found.client.public, up=False)
            await found.pair.goes_on()


# -- peers that take their time -------------------------------------------------------------------------------


async def test_a_peer_that_sends_a_byte_now_and_then(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """The connection is closed after `limits.hello_s`, however slowly bytes come: before TLS, before the hello, and
    before the proof."""
    async with scene(tmp_path) as found:
        core = found.core
        port = int(core.url.rpartition(":")[2])
        tls = await transport.dial(core.url, found.client, core.address, timeout_s=HANG_S)
        slow: dict[str, tuple[Trickled, bytes]] = {
            "in the TLS handshake": (
                await trio.open_tcp_stream("127.0.0.1", port),
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
            ),
            "in the hello, over TLS": (tls, frame(bytes(500))),
            "in the hello, over the owner's socket": (
                await trio.open_unix_socket(str(core.home.socket_path)), frame(bytes(500))
            ),
        }  # fmt: skip
        took = dict.fromkeys(slow, 0.0)

        async def measure(name: str) -> None:
            took[name] = await trickle(*slow[name])

        async with trio.open_nursery() as nursery:
            for name in slow:
                nursery.start_soon(measure, name)
        await found.pair.goes_on()
        for name, seconds in took.items():
            with subtests.test(name):
                assert seconds > 0
        with subtests.test("a machine hears why"):
            key = new_key()
            *_, last = await say_bytes(core, frame(bytes(500))[:9], key=key)
            assert last == Goodbye(Reason.CONNECT_TIMEOUT, "no complete handshake in time")


class Trickled(Protocol):
    async def send_all(self, data: bytes, /) -> None: ...
    async def receive_some(self, max_bytes: int, /) -> bytes | bytearray: ...
    async def aclose(self) -> None: ...


async def trickle(stream: Trickled, data: bytes) -> float:
    """Send the data byte by byte, with pauses of a tenth of the limit; return after how many seconds the node has
    closed."""
    began = trio.current_time()

    async def send() -> None:
        try:
            for at in range(len(data)):
                await stream.send_all(data[at : at + 1])
                await trio.sleep(HELLO_S / 10)
        except (trio.BrokenResourceError, StreamBroken):
            pass  # It has closed.

    with trio.fail_after(len(data) * HELLO_S / 10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            with suppress(trio.BrokenResourceError, StreamBroken):
                while await stream.receive_some(4096):
                    pass
            nursery.cancel_scope.cancel()
    await stream.aclose()
    return trio.current_time() - began


async def test_a_peer_that_never_reads(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """A member of the group that reads nothing counts as away; a speaker that reads nothing harms no other."""
    async with scene(tmp_path) as found:
        core, group = found.core, found.group
        async with linked(core, found.client, tls=True) as deaf, linked(core, new_key()) as speaker:
            assert await deaf.join(group.public)
            wires = [multicast(group, os.urandom(8) + bytes(8000)) for _ in range(2000)]
            with subtests.test("a member"):
                for at in range(0, len(wires), 200):
                    assert set(await speaker.publish(*wires[at : at + 200])) == {None}
                await found.listener.until_got(*wires)
                assert await core.queued(found.client.public) == len(wires)
                await found.pair.goes_on()
            with subtests.test("and when it reads at last"):
                await deaf.until_got(*wires)
                assert deaf.ids == ids(*wires)
                await core.until_drained(found.client.public)
            with subtests.test("a speaker"):
                more = [multicast(group, os.urandom(8)) for _ in range(500)]
                for wire in more:
                    await deaf.send(wire)
                await found.listener.until_got(*more)
                assert found.listener.ids[-len(more) :] == ids(*more)
                await found.pair.goes_on()


# -- the wrong end of the line --------------------------------------------------------------------------------


async def test_a_wrong_key_on_dial(tmp_path: Path) -> None:
    """The dialling node's operator and an app are told which key was dialled and which answered."""
    async with scene(tmp_path) as found:
        core, edge, wanted = found.core, found.rig.node("edge"), new_key().public
        edge.knows(wanted, "impostor", url=core.url, uplink=True)
        await edge.start()

        async def is_said() -> bool:
            return any(row.get("problem") for row in await edge.ask("peers"))

        await until("the problem is known", is_said)
        dialled, answered = (short(key_text("addr", one)) for one in (wanted, core.address))
        said = f"key {dialled} was dialled, but key {answered} answered"
        shown = await edge.run("peers", "--json")
        [row] = [row for row in shown.json if row["address"] == wanted.hex()]
        assert (row["state"], row["name"]) == ("away", "impostor")
        assert said in row["problem"]
        assert said in (await edge.run("peers")).stdout
        assert said in edge.said()
        with pytest.raises(NodeUnavailable, match=wanted.hex()):
            async with connect(url=f"unix://{core.home.socket_path}", expect=wanted):
                pass
        await found.pair.goes_on()


async def test_plain_text_on_the_tls_port(tmp_path: Path) -> None:
    """The connection is closed at once, without an answer in plain text; the node's log says which protocol was
    spoken."""
    async with rig(tmp_path) as found:
        core = found.node("core", "core", verbose=True)
        await core.start()
        async with undisturbed(core) as pair:
            for text in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x00" * 100, os.urandom(1000), b"SSH-2.0-x\r\n"):
                stream = await trio.open_tcp_stream("127.0.0.1", int(core.url.rpartition(":")[2]))
                heard = b""
                with trio.fail_after(HANG_S), suppress(trio.BrokenResourceError):
                    await stream.send_all(text)
                    while more := await stream.receive_some(4096):
                        heard += more
                await stream.aclose()
                assert heard[:1] in (b"", b"\x15")  # nothing, or a TLS alert
                await pair.goes_on()
            assert "127.0.0.1" in core.said()
            assert "TLS" in core.said()


async def test_a_strangers_join(tmp_path: Path) -> None:
    """A stranger gets no acknowledgement, no subscription, and no message of the group."""
    async with scene(tmp_path) as found:
        before = await found.core.ask("groups")
        async with linked(found.core, new_key(), tls=True) as stranger:
            assert await stranger.publish(stranger.says(Join(found.pair.group.public, False))) == [None]
            await found.pair.goes_on()
            assert await stranger.publish(multicast(found.group, b"x")) == [Reason.NOT_AUTHORISED]
            assert stranger.heard_nothing
        assert await found.core.ask("groups") == before
