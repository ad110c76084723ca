"""The requests of a service to its router: neighbours and rights beside the configuration, with an end; events."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner
from rigs.patience import HANG_S
from rigs.serving import serving

from router.cli import main
from router.client.errors import ClientError, NodeUnavailable, Refused
from router.client.node import Node, connect
from router.core.neighbours.book import Book, Granted, Learned
from router.core.neighbours.directory import Neighbour
from router.core.wire.admin import Inquiry, encode_inquiry
from router.core.wire.crypto import SigningKey
from router.core.wire.reasons import Reason
from router.service.running import guests_url, key_of
from router.settings.home import Home

GUEST, FRIEND = SigningKey(b"g" * 32), SigningKey(b"f" * 32)
CONFIG = f"""
[[node.services]]
name = "tester"
module = "guestbook"
run = "by-hand"

[[peers]]
address = "{FRIEND.public.hex()}"
"""


def made(path: Path) -> Home:
    home = Home(path / "home")
    home.create()
    home.config_path.write_text(CONFIG)
    return home


@asynccontextmanager
async def service(home: Home) -> AsyncIterator[Node]:
    """Return the connection of the service, whose part the test plays."""
    async with connect(home=home, key=key_of(home, "tester")) as node:
        yield node


async def said(node: Node, word: str, **argument: Any) -> Any:
    return json.loads(await node.ask(word, json.dumps(argument), timeout_s=HANG_S))


async def learned(node: Node) -> dict[str, str]:
    """Return the node's neighbours, and who made each known."""
    return {
        one["address"]: one["learned"]
        for one in json.loads(await node.ask("peers", timeout_s=HANG_S))
        if one["learned"]
    }


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await trio.sleep(0.01)


def soon(seconds: int = 3600) -> int:
    return int(time.time()) + seconds


async def test_what_a_service_learns_stands_beside_the_configuration(tmp_path: Path) -> None:
    home = made(tmp_path)
    guest = GUEST.public.hex()
    with trio.fail_after(HANG_S):
        async with serving(home.path, {}), service(home) as node:
            told = {"key": guest, "urls": ["tls://127.0.0.1:9"], "name": "met"}
            assert await said(node, "learn", **told, until_s=soon()) == {"learned": True}
            assert await learned(node) == {guest: "tester", FRIEND.public.hex(): "config"}
            assert json.loads(await node.ask("reload", timeout_s=HANG_S)) == {"reloaded": True}
            assert (await learned(node))[guest] == "tester", "a reload does not wipe it"
            own = node.router
            assert own is not None and "of this node" in (await said(node, "learn", key=own.hex()))["error"]
            assert "no right" in (await said(node, "grant", key=guest, rights=["reign"], until_s=soon()))["error"]
            assert "Expected" in (await said(node, "learn", key=5))["error"]
        async with serving(home.path, {}), service(home) as node:
            assert (await learned(node))[guest] == "tester", "it survives a restart"
            assert await said(node, "learn", key=guest) == {"learned": False}
            assert guest not in await learned(node), "it is gone at once"


async def test_the_address_book_is_bounded_and_says_who_learned_whom_until_when(tmp_path: Path) -> None:
    home, until_s = made(tmp_path), soon()
    guest = {"key": GUEST.public.hex(), "urls": ["tls://127.0.0.1:9"], "name": "met"}
    other = {"key": SigningKey(b"o" * 32).public.hex(), "until_s": until_s}

    def listed() -> str:
        return CliRunner().invoke(main, ["--home", str(home.path), "peer", "list", "--all"]).output

    with trio.fail_after(HANG_S):
        async with serving(home.path, {"limits.learned_max": 1}), service(home) as node:
            assert await said(node, "learn", **guest, until_s=until_s) == {"learned": True}
            assert "limits.learned_max" in (await said(node, "learn", **other))["error"]
            assert await said(node, "learn", **guest, until_s=until_s + 9) == {"learned": True}, "once more, for longer"
            rows = {one["name"]: one for one in json.loads(await node.ask("peers"))}
            assert (rows["met"]["learned"], rows["met"]["until_s"]) == ("tester", until_s + 9)
            assert rows["met"]["urls"] == guest["urls"]
            lines = (await trio.to_thread.run_sync(listed)).splitlines()
            [row] = [line.split() for line in lines if line.startswith("met ")]
            assert "tester" in row and "  tls://127.0.0.1:9" in lines
            assert await said(node, "learn", key=guest["key"]) == {"learned": False}
            assert await said(node, "learn", **other) == {"learned": True}


async def test_only_a_configured_service_may_say_such_words(tmp_path: Path) -> None:
    home = made(tmp_path)
    async with serving(home.path, {}), connect(home=home) as node:
        for word in ("learn", "grant", "agree", "note", "answer"):
            with pytest.raises(Refused, match=r"only services that node\.services names") as told:
                await said(node, word, key=GUEST.public.hex())
            assert told.value.reason is Reason.NOT_AUTHORISED


async def test_a_grant_lets_a_guest_in_as_often_as_it_says(tmp_path: Path) -> None:
    """A grant does not let the guest in more often, for longer, or after it was taken back."""
    home = made(tmp_path)
    group = SigningKey(b"h" * 32)

    async def visit() -> None:
        async with connect(url=guests_url(home), key=GUEST, home=home) as guest:
            await guest.join(group, timeout_s=HANG_S)

    with trio.fail_after(HANG_S):
        async with serving(home.path, {}), service(home) as node:
            with pytest.raises(NodeUnavailable):
                await visit()
            rights = {"key": GUEST.public.hex(), "rights": ["join"], "until_s": soon()}
            assert await said(node, "grant", **rights, uses=2) == {"granted": True}
            await visit()
            await visit()
            with pytest.raises(NodeUnavailable):
                await visit()
            await said(node, "grant", **rights)
            async with connect(url=guests_url(home), key=GUEST, home=home) as guest:
                await guest.join(group, timeout_s=HANG_S)
                await said(node, "grant", key=GUEST.public.hex())
                await until(lambda: not guest.is_up)
                with pytest.raises(ClientError):
                    await guest.join(SigningKey(b"i" * 32))


async def test_events_are_logged_once_and_only_those_that_are_declared(tmp_path: Path) -> None:
    home = made(tmp_path)
    events = [{"event": "guestbook_signed", "fields": {"page": page}} for page in (1, 2)]
    with trio.fail_after(HANG_S):
        async with serving(home.path, {}), service(home) as node:
            epoch = {"epoch": "00" * 8, "first": 1}
            assert await said(node, "note", **epoch, events=events[:1]) == {"noted": 1}
            assert await said(node, "note", **epoch, events=events) == {"noted": 2}
            assert await said(node, "note", **epoch, events=events) == {"noted": 2}
            other = [{"event": "guestbook_signed", "fields": {"page": 3}}, {"event": "link_up"}]
            assert await said(node, "note", epoch="00" * 8, first=3, events=other) == {"noted": 3}
            told = await said(node, "note", epoch="00" * 8, first=3, events=other)
            assert told["error"].startswith('the event "link_up" was not declared in the events.py of tester')
            lines = [json.loads(line) for line in json.loads(await node.ask("log", "0", timeout_s=HANG_S))["lines"]]
            pages = [line["fields"]["page"] for line in lines if line["event"] == "guestbook_signed"]
            assert pages == [1, 2, 3]


async def test_the_router_is_in_the_group_of_each_of_its_services(tmp_path: Path) -> None:
    """The router gets each word there whether or not others get it too; other messages need a subscriber."""
    home = made(tmp_path)
    word = {"key": GUEST.public.hex(), "urls": ["tls://127.0.0.1:9"], "until_s": soon()}
    body = encode_inquiry(Inquiry("learn", json.dumps(word)))
    key = key_of(home, "tester")
    with trio.fail_after(HANG_S):
        async with serving(home.path, {}), service(home) as node, connect(home=home) as app:
            with pytest.raises(Refused, match="no-subscribers"):
                await node.group(key).publish(b"nobody hears this", ttl_s=0)
            await node.group(key).publish(body, ttl_s=0)
            assert (await learned(node))[GUEST.public.hex()] == "tester"
            assert await said(node, "learn", key=GUEST.public.hex()) == {"learned": False}
            group = await app.join(key.public, timeout_s=HANG_S)
            await node.group(key).publish(body, ttl_s=0)
            assert (await anext(group.messages())).body == body
            assert (await learned(node))[GUEST.public.hex()] == "tester"
            with pytest.raises(Refused):
                await app.group(SigningKey(b"x" * 32)).publish(body, ttl_s=0)


# -- the book -----------------------------------------------------------------------------------------------------


BY, KEY = b"s" * 32, b"k" * 32


def test_the_configuration_beats_what_services_say_and_blocked_beats_all() -> None:
    book = Book(1000)
    book.load([], {BY: "tester"})
    book.learn(Learned(BY, KEY, "met", ("tls://there:1",), 10), 0)
    book.grant(Granted(BY, KEY, frozenset(("join",)), 10, None), 0)
    alone = book.neighbours({}, 0)[KEY]
    join, relay = frozenset(("join",)), frozenset(("relay",))
    assert alone == Neighbour(KEY, "met", join, urls=("tls://there:1",), learned="tester", until_s=10, by=BY)
    written = Neighbour(KEY, "mine", relay, urls=("tls://here:2",))
    both = book.neighbours({KEY: written}, 0)[KEY]
    assert both == Neighbour(KEY, "mine", join | relay, urls=("tls://here:2",))
    blocked = Neighbour(KEY, blocked=True)
    assert book.neighbours({KEY: blocked}, 0)[KEY] == blocked


def test_entries_end_with_their_time_their_uses_and_their_service() -> None:
    book = Book(1000)
    book.load([], {BY: "tester"})
    rows = dict(
        [
            book.learn(Learned(BY, KEY, "", (), 10, "lan"), 0),
            book.grant(Granted(BY, KEY, frozenset(("join",)), 20, 2), 0),
        ]
    )
    again = Book(1000)
    assert again.load(list(rows.items()), {BY: "tester"}) == []  # type: ignore[arg-type]
    assert again.neighbours({}, 0) == book.neighbours({}, 0)
    found = again.neighbours({}, 0)[KEY]
    assert (found.learned, found.by) == ("lan", BY), "the service's own word for it, and who is told of it"
    assert [value for _, value in again.over(10)] == [None] and not again.learned and again.granted
    again.signed_on(KEY, 10)
    assert again.used_up() == []
    again.signed_on(KEY, 10)
    assert [value for _, value in again.used_up()] == [None] and not again.granted
    assert len(Book(1000).load(list(rows.items()), {})) == 2, "of a service that is configured no more"  # type: ignore[arg-type]
