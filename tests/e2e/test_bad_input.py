"""Bad input of every kind against a real node: refused with a reason for machines and a sentence for people, while two
well-behaved apps exchange messages and notice nothing."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest
import trio
from bad_bytes import BAD_MESSAGES, bad_bytes
from raw_link import RawLink, linked, multicast, say_bytes
from rig import ROUTER, Finished, NodeProcess, Rig, new_key, rig, run_command, until

from router import NodeUnavailable, connect, transport
from router.core.codec import frame
from router.core.control import Join
from router.core.crypto import MessageId, SigningKey
from router.core.link import Goodbye
from router.core.message import message_id
from router.core.reasons import Reason
from router.transport import StreamBroken

HELLO_S = 1.0
PATIENCE_S = 20.0  # no message of the pair takes longer, on the busiest machine
FRAME_BYTES_MAX = 64 * 1024


@dataclass
class Pair:
    """A speaker and a listener on one node. The speaker says the next thing when the listener has heard the last."""

    node: NodeProcess
    group: SigningKey = field(default_factory=new_key)
    heard: list[bytes] = field(default_factory=list)
    longest_s: float = 0.0

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        home = self.node.home
        async with connect(home=home) as listener, connect(home=home) as speaker:
            listening, speaking = await listener.join(self.group), speaker.group(self.group)
            task_status.started()
            n = 0
            while True:
                began = trio.current_time()
                with trio.fail_after(PATIENCE_S):
                    await speaking.publish(b"%d" % n)
                    async for message in listening:
                        self.heard.append(message.body)
                        break
                self.longest_s = max(self.longest_s, trio.current_time() - began)
                n += 1

    async def goes_on(self) -> None:
        """Three more messages have come, and all so far once and in order."""
        before = len(self.heard)

        async def has_more() -> bool:
            return len(self.heard) >= before + 3

        await until("the pair goes on", has_more)
        assert self.heard == [b"%d" % n for n in range(len(self.heard))]


@asynccontextmanager
async def undisturbed(node: NodeProcess) -> AsyncIterator[Pair]:
    async with trio.open_nursery() as nursery:
        pair = Pair(node)
        await nursery.start(pair.run)
        await pair.goes_on()
        yield pair
        await pair.goes_on()
        nursery.cancel_scope.cancel()


@dataclass
class Scene:
    """A core with an undisturbed pair, a client, and a group that the client may speak to."""

    rig: Rig
    core: NodeProcess
    pair: Pair
    client: SigningKey
    group: SigningKey
    listener: RawLink


@asynccontextmanager
async def scene(base: Path) -> AsyncIterator[Scene]:
    async with rig(base) as found:
        core, client, group = found.node("core", "core", **SMALL), new_key(), new_key()
        core.knows(client.public, "client", grants=("join", "store"))
        await core.start()
        async with undisturbed(core) as pair, linked(core, new_key()) as listener:
            assert await listener.join(group.public)
            yield Scene(found, core, pair, client, group, listener)


SMALL = {"limits__hello_s": HELLO_S, "limits__frame_bytes_max": FRAME_BYTES_MAX, "limits__lifetime_s_max": 7 * 86_400}


def ids(*wires: bytes) -> list[MessageId]:
    return [message_id(wire) for wire in wires]


@pytest.mark.parametrize("tls", [True, False], ids=["tls", "unix"])
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
                    await found.listener.until("the good ones come", lambda g=ids(*good): g == found.listener.ids[-2:])
                    after = (await found.core.ask("status"))["reasons"]
                    if bad.reason is not None:
                        assert after[bad.reason.word] == before.get(bad.reason.word, 0) + 1
                    await found.pair.goes_on()
            with subtests.test("replayed"):
                good = [multicast(found.group, b"once"), multicast(found.group, b"the end")]
                assert await link.publish(good[0], good[0]) == [None, None]
                assert await link.publish(good[0], good[1]) == [None, None]
                await found.listener.until("the end comes", lambda: ids(good[1]) == found.listener.ids[-1:])
                assert found.listener.ids[-2:] == ids(*good)
                assert len(set(found.listener.ids)) == len(found.listener.ids)
            assert (len(link.got), link.ended) == (0, None)


@pytest.mark.parametrize("tls", [True, False], ids=["tls", "unix"])
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
                    await link.stream.send_all(bad.data)
                    ended = await link.until_closed()
                    assert ended is not None
                    assert ended.reason == bad.reason
                    assert ended.text
                await found.listener.until("what came before is delivered", lambda g=good: ids(g)[0] in found.listener.ids)
                await found.pair.goes_on()
            with subtests.test(f"{bad.name}, instead of a hello"):
                *_, last = await say_bytes(found.core, bad.data, key=new_key(), tls=tls)
                assert isinstance(last, Goodbye)
                await found.pair.goes_on()
        with subtests.test("a frame that is cut off"):
            async with linked(found.core, found.client, tls=True) as link:
                await link.stream.send_all(b"\x59\x01\x00" + bytes(100))
            await found.core.until_connected(found.client.public, up=False)
            await found.pair.goes_on()


# -- peers that take their time -------------------------------------------------------------------------------


async def test_a_peer_that_sends_a_byte_now_and_then(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Before TLS, before the hello, and before the proof: closed when `limits.hello_s` is over, however it trickles."""
    async with scene(tmp_path) as found:
        core = found.core
        port = int(core.url.rpartition(":")[2])
        with subtests.test("in the TLS handshake"):
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            assert await trickle(stream, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500)) < 5 * HELLO_S
            await found.pair.goes_on()
        with subtests.test("in the hello, over TLS"):
            tls = await transport.dial(core.url, found.client, core.address, timeout_s=10)
            assert await trickle(tls, frame(bytes(500))) < 5 * HELLO_S
            await found.pair.goes_on()
        with subtests.test("in the hello, over the owner's socket"):
            unix = await trio.open_unix_socket(str(core.home.socket_path))
            assert await trickle(unix, frame(bytes(500))) < 5 * HELLO_S
            await found.pair.goes_on()
        with subtests.test("a machine hears why"):
            key = new_key()
            *_, last = await say_bytes(core, frame(bytes(500))[:9], key=key)
            assert last == Goodbye(Reason.CONNECT_TIMEOUT, "no complete handshake in time")


class Trickled(Protocol):
    async def send_all(self, data: bytes, /) -> None: ...
    async def receive_some(self, max_bytes: int, /) -> bytes | bytearray: ...
    async def aclose(self) -> None: ...


async def trickle(stream: Trickled, data: bytes) -> float:
    """Send it byte by byte, a tenth of the patience between two; after how many seconds the node has closed."""
    began = trio.current_time()

    async def send(scope: trio.CancelScope) -> None:
        try:
            for at in range(len(data)):
                await stream.send_all(data[at : at + 1])
                await trio.sleep(HELLO_S / 10)
        except (trio.BrokenResourceError, StreamBroken):
            pass  # It has closed.

    with trio.fail_after(len(data) * HELLO_S / 10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, nursery.cancel_scope)
            with suppress(trio.BrokenResourceError, StreamBroken):
                while await stream.receive_some(4096):
                    pass
            nursery.cancel_scope.cancel()
    await stream.aclose()
    return trio.current_time() - began


async def test_a_peer_that_never_reads(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """A member of the group that reads nothing is one who is away; a speaker that reads nothing harms nobody."""
    async with scene(tmp_path) as found:
        core, group = found.core, found.group
        async with linked(core, found.client, tls=True) as deaf, linked(core, new_key()) as speaker:
            assert await deaf.join(group.public)
            wires = [multicast(group, os.urandom(8) + bytes(8000)) for _ in range(2000)]
            with subtests.test("a member"):
                for at in range(0, len(wires), 200):
                    assert set(await speaker.publish(*wires[at : at + 200])) == {None}
                await found.listener.until("the other member has all", lambda: len(found.listener.got) == len(wires))
                assert await core.queued(found.client.public) == len(wires)
                await found.pair.goes_on()
            with subtests.test("and when it reads at last"):
                await deaf.until("it has all", lambda: len(deaf.got) == len(wires))
                assert deaf.ids == ids(*wires)
                await core.until_drained(found.client.public)
            with subtests.test("a speaker"):
                more = [multicast(group, os.urandom(8)) for _ in range(500)]
                for wire in more:
                    await deaf.send(wire)
                await found.listener.until("all are delivered", lambda: found.listener.ids[-1:] == ids(more[-1]))
                assert found.listener.ids[-len(more) :] == ids(*more)
                await found.pair.goes_on()


# -- the wrong end of the line --------------------------------------------------------------------------------


async def test_a_wrong_key_on_dial(tmp_path: Path) -> None:
    """The dialling node's operator is told which key was dialled and which answered; an app likewise."""
    async with scene(tmp_path) as found:
        core, edge, wanted = found.core, found.rig.node("edge"), new_key().public
        edge.knows(wanted, "impostor", url=core.url, uplink=True)
        await edge.start()

        async def is_said() -> bool:
            return any(row.get("problem") for row in await edge.ask("peers"))

        await until("the problem is known", is_said)
        said = f"key {wanted.hex()[:16]}… was dialled, but key {core.address.hex()[:16]}… answered"
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
    """Closed at once, without an answer in plain text; the node's log says who spoke what."""
    async with rig(tmp_path) as found:
        core = found.node("core", "core", verbose=True)
        await core.start()
        async with undisturbed(core) as pair:
            for text in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x00" * 100, os.urandom(1000), b"SSH-2.0-x\r\n"):
                stream = await trio.open_tcp_stream("127.0.0.1", int(core.url.rpartition(":")[2]))
                heard = b""
                with trio.fail_after(10), suppress(trio.BrokenResourceError):
                    await stream.send_all(text)
                    while more := await stream.receive_some(4096):
                        heard += more
                await stream.aclose()
                assert heard[:1] in (b"", b"\x15")  # nothing, or a TLS alert
                await pair.goes_on()
            assert "127.0.0.1" in core.said()
            assert "TLS" in core.said()


async def test_a_strangers_join(tmp_path: Path) -> None:
    """Silence: no acknowledgement, no subscription, and nothing of what is said in the group."""
    async with scene(tmp_path) as found:
        before = await found.core.ask("groups")
        async with linked(found.core, new_key(), tls=True) as stranger:
            assert await stranger.publish(stranger.says(Join(found.pair.group.public, False))) == [None]
            await found.pair.goes_on()
            assert await stranger.publish(multicast(found.group, b"x")) == [Reason.NOT_AUTHORISED]
            assert (stranger.control, stranger.got) == ([], [])
        assert [row for row in await found.core.ask("groups") if row in before] == before


# -- what only its operator sees ------------------------------------------------------------------------------


async def serve(home: Path, *args: str, user: int | None = None) -> Finished:
    return await run_command((*ROUTER, "--home", str(home), "serve", *args), user=user)


def said_plainly(done: Finished, code: int, *words: str) -> None:
    """One or two lines on standard error, no traceback, nothing on standard output."""
    assert (done.code, done.stdout) == (code, ""), done.stderr
    assert 1 <= len(done.stderr.splitlines()) <= 2, done.stderr
    for word in words:
        assert word in done.stderr


async def test_two_nodes_on_one_home(tmp_path: Path) -> None:
    async with scene(tmp_path) as found:
        second = await serve(found.core.home.path)
        said_plainly(second, 1, f"another node (pid {found.core.pid}) is running", str(found.core.home.path))
        await found.pair.goes_on()


async def test_a_port_in_use(tmp_path: Path) -> None:
    async with scene(tmp_path) as found:
        second = await serve(tmp_path / "second", "--listen", found.core.url)
        said_plainly(second, 1, found.core.url.removeprefix("tls://"), "another program uses this port")
        await found.pair.goes_on()


async def test_a_corrupted_database(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Told at the start, with the place and what to do, and the damaged file stays as it is."""
    async with rig(tmp_path) as found:
        node = found.node("node")
        await node.start()
        key, group = new_key(), new_key()
        async with linked(node, key, durable=True) as app:
            await app.join(group.public)
        async with linked(node, new_key()) as speaker:
            for _ in range(20):
                await speaker.publish(*[multicast(group, os.urandom(500)) for _ in range(10)])
        await node.kill()
        data = node.home.store_path / "data.mdb"
        good = data.read_bytes()
        page = 4096
        damages = {
            "overwritten": os.urandom(len(good)),
            "with both meta pages gone": bytes(2 * page) + good[2 * page :],
            "of another program": b"SQLite format 3\x00" + bytes(len(good)),
            "empty but for a byte": b"\x00",
            "cut off": good[: 2 * page],
        }
        for name, bad in damages.items():
            with subtests.test(name):
                data.write_bytes(bad)
                said_plainly(await serve(node.home.path), 1, str(node.home.store_path))
                assert data.read_bytes()[: len(bad)] == bad
        data.write_bytes(good)
        await node.start()
        async with linked(node, key, durable=True) as app:
            await app.until("what the good file holds comes", lambda: len(app.got) == 200)


async def test_a_home_that_is_not_writable(tmp_path: Path, subtests: pytest.Subtests) -> None:
    with subtests.test("below a file"):
        (tmp_path / "file").write_text("")
        said_plainly(await serve(tmp_path / "file" / "home"), 1, str(tmp_path / "file"), "--home")
    with subtests.test("where the system lets nobody write"):
        said_plainly(await serve(Path("/proc/home")), 1, "/proc/home", "--home")
    with subtests.test("of somebody else"):
        home = tmp_path / "home"
        home.mkdir(mode=0o500)
        if os.geteuid() == 0:
            pytest.skip("root may write everywhere")
        said_plainly(await serve(home), 1, str(home), "--home")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("[limits]\nhelo_s = 3\n", ("line 2", "helo_s", "did you mean", "hello_s")),
        ("[link]\nping_s = true\n", ("link.ping_s", "number")),
        ("[lnk]\n", ("lnk", "did you mean", "link")),
        ("[node]\nrole = 'egde'\n", ("role", "edge")),
        ("[node\n", ("line 1",)),
        ('[[peers]]\naddress = "12"\n', ("address",)),
    ],
)
async def test_a_configuration_with_a_typo(lines: str, said: tuple[str, ...], tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert (await run_command((*ROUTER, "--home", str(home), "init"))).code == 0
    (home / "router.toml").write_text(lines)
    said_plainly(await serve(home), 2, "router.toml", *said)
    checked = await run_command((*ROUTER, "--home", str(home), "config", "check", "--json"))
    assert checked.code == 2
    assert not checked.json["ok"]
    assert all(word in checked.json["problems"][0] for word in said)
