"""What rules hear of the groups that they join by name, as the links of the home come, change and go."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from rigs.own_services import ask, one_service
from rigs.patience import HANG_S
from rigs.serving import serving

from router.cli import group_changes
from router.cli.group_changes import tell_services
from router.client.errors import ClientError
from router.client.node import Node, connect
from router.core.wire.crypto import SigningKey
from router.core.wire.grouplink import new_group
from router.core.wire.text import parse_key
from router.disk.state.service_state import State
from router.service import contract as c
from router.service import memberships
from router.service.memberships import AGAIN_S_MAX, LOOK_S, FollowedGroup, Memberships
from router.settings import keyring
from router.settings.home import Home

KEYS = [SigningKey(bytes([number]) * 32).public.hex() for number in range(1, 4)]
NEWS, OTHER = new_group(b"g" * 32, b"k" * 32), new_group(b"o" * 32, b"k" * 32)
RULES = """
from router.service import contract as c


class Reader:
    def __init__(self, setup):
        self.told, self.bodies = [], []

    def hear(self, heard, now):
        match heard:
            case c.Started():
                return [c.Join("news", raw=True, tag="news"), c.Join("silently")]
            case c.Joined(tag, group, may_publish, error):
                self.told.append([tag, group.hex() if group else None, may_publish, error.partition(";")[0]])
            case c.Message(body=body):
                self.bodies.append(body.decode())
            case c.Asked(number, "join"):
                return [c.Join("news", raw=True, tag="news"), c.Answer(number, True)]
            case c.Asked(number, "leave"):
                return [c.Leave("news"), c.Answer(number, True)]
            case c.Asked(number, "bodies"):
                return [c.Answer(number, self.bodies)]
            case c.Asked(number):
                return [c.Answer(number, self.told)]
        return []
"""
UNKNOWN = ["news", None, False, 'there is no group "news"']


def joined(group: bytes, may_publish: bool) -> list[object]:
    return ["news", group.hex(), may_publish, ""]


async def until(node: Node, question: str, holds: Callable[[Any], bool]) -> Any:
    while not holds(found := await ask(node, question)):
        await trio.sleep(0.02)
    return found


async def tell(home: Home) -> None:
    """Do what commands do that change the groups of a home."""
    await trio.to_thread.run_sync(tell_services, home)


async def test_rules_hear_at_once_what_becomes_of_a_group_as_its_link_comes_changes_and_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_changes, "TELL_S", HANG_S)
    monkeypatch.setattr(memberships, "LOOK_S", HANG_S)
    async with one_service(tmp_path, monkeypatch, "reader", RULES) as (home, node):
        await until(node, "reader told", lambda found: found == [UNKNOWN])
        keyring.add_group(home, "news", NEWS)
        await tell(home)
        async with connect(home=home) as app:
            await app.group("news", raw=True).publish(b"at once")
        assert (await ask(node, "reader told"))[1:] == [joined(NEWS.group, True)]
        await until(node, "reader bodies", lambda found: found == ["at once"])
        keyring.remove_group(home, "news")
        await tell(home)
        assert (await ask(node, "reader told"))[2:] == [UNKNOWN]
        async with connect(home=home) as app:
            readers = [row["subscriber"] for row in (await app_asks(app, "groups")) if row["group"] == NEWS.group.hex()]
        assert not readers, "the service has left the group whose link is gone"
        keyring.add_group(home, "news", NEWS.read_only())
        await tell(home)
        keyring.add_group(home, "news", NEWS)
        await tell(home)
        await tell(home)
        assert (await ask(node, "reader told"))[3:] == [joined(NEWS.group, False), joined(NEWS.group, True)]
        assert await ask(node, "reader join")
        await until(node, "reader told", lambda found: found[5:] == [joined(NEWS.group, True)])
        assert await ask(node, "reader leave")
        keyring.remove_group(home, "news")
        await tell(home)
        assert len(await ask(node, "reader told")) == 6, "what rules have left is not followed"


async def app_asks(app: Node, word: str) -> Any:
    from router.cli.ask import whole_answer

    return await whole_answer(app, word)


async def test_a_link_that_changes_without_a_command_is_found_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memberships, "LOOK_S", 0.05)
    async with one_service(tmp_path, monkeypatch, "reader", RULES) as (home, node):
        keyring.add_group(home, "news", NEWS)
        await until(node, "reader told", lambda found: found[-1:] == [joined(NEWS.group, True)])
        keyring.remove_group(home, "news")
        keyring.add_group(home, "news", OTHER)
        await until(node, "reader told", lambda found: found[-1:] == [joined(OTHER.group, True)])
        rows = {row["group"] for row in await app_asks(node, "groups")}
        assert OTHER.group.hex() in rows and NEWS.group.hex() not in rows


async def test_a_service_without_rules_answers_a_command_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = "from router.service.host import Service\n\nclass Plain(Service):\n    pass\n"
    async with one_service(tmp_path, monkeypatch, "plain", plain) as (home, node):
        await tell(home)
        found = await until(node, "plain status", lambda found: "away" not in found)
        assert found == {"error": "the service plain answers no questions"}


async def test_a_group_that_was_removed_while_the_node_was_stopped_is_left_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memberships, "LOOK_S", 0.05)
    async with one_service(tmp_path, monkeypatch, "reader", RULES) as (home, node):
        keyring.add_group(home, "news", NEWS)
        keyring.add_group(home, "kept", OTHER)
        await until(node, "reader told", lambda found: found[-1:] == [joined(NEWS.group, True)])
    keyring.remove_group(home, "news")
    async with serving(home.path, {}), connect(home=home) as node:
        rows = [{"group": NEWS.group.hex()}]
        while any(row["group"] == NEWS.group.hex() for row in rows):
            rows = await app_asks(node, "groups")
            await trio.sleep(0.02)
        assert await ask(node, "reader told") == [UNKNOWN]


class Refusing:
    """A node that refuses each JOIN. `tries`: how many there were."""

    def __init__(self) -> None:
        self.tries = 0

    async def join(self, group: str, *, raw: bool, local: bool) -> None:
        self.tries += 1
        raise ClientError("the router refuses that")


async def test_a_group_that_is_refused_is_tried_again_after_a_pause_or_when_a_command_says_so(tmp_path: Path) -> None:
    node, log = Refusing(), logging.getLogger(__name__)
    place, state = SimpleNamespace(home=Home(tmp_path)), State(tmp_path / "state")
    host = SimpleNamespace(node=node, place=place, log=log, state=state)
    one = Memberships(host, lambda heard: None, lambda deed, error: None)  # type: ignore[arg-type]
    await one.change(c.Join(KEYS[0], tag="news"))
    await one.look(is_asked=False)
    assert node.tries == 1
    await one.look()
    assert node.tries == 2
    state.close()


def test_the_pauses_of_a_followed_group_grow_to_their_most_and_are_random() -> None:
    one, pauses = FollowedGroup(c.Join("news")), []
    for _ in range(50):
        one.fail(0.0)
        pauses.append(one.again_s)
    assert LOOK_S / 2 <= pauses[0] <= LOOK_S < pauses[2]
    assert all(AGAIN_S_MAX / 2 <= pause <= AGAIN_S_MAX for pause in pauses[5:]) and len(set(pauses)) > 10


class Silent:
    """A node that answers no JOIN of one group."""

    def __init__(self) -> None:
        self.joined = list[str]()

    async def join(self, group: str, *, raw: bool, local: bool) -> SimpleNamespace:
        if group == KEYS[0]:
            await trio.sleep_forever()
        self.joined.append(group)
        return SimpleNamespace(key=parse_key(group, "group"), name=None, may_publish=False)

    async def leave(self, group: str) -> None:
        self.joined.remove(group)


class Subscribed:
    """A node whose router keeps the subscriptions, `groups`, over the runs of a service. The groups of the home are
    known by name, all others by key."""

    def __init__(self, home: Home) -> None:
        self.home, self.groups = home, set[bytes]()

    async def join(self, group: str, *, raw: bool, local: bool) -> SimpleNamespace:
        try:
            name, link = keyring.find(self.home, group)
            key = link.group
        except keyring.KeyringError:
            name, key = None, parse_key(group, "group")
        self.groups.add(key)
        return SimpleNamespace(key=key, name=name, may_publish=True)

    async def leave(self, group: bytes) -> None:
        self.groups.discard(group)


@asynccontextmanager
async def one_run(node: Subscribed) -> AsyncIterator[Memberships]:
    """Yield what a run of a service has of its memberships, with the state that its earlier runs have left."""
    place = SimpleNamespace(home=node.home, key=SigningKey(bytes(32)))
    state = State(node.home.path / "state")
    host = SimpleNamespace(node=node, place=place, log=logging.getLogger(__name__), state=state)
    try:
        yield Memberships(host, lambda heard: None, lambda deed, error: None)  # type: ignore[arg-type]
    finally:
        state.close()


@pytest.fixture
def subscribed(tmp_path: Path) -> Subscribed:
    home = Home(tmp_path / "home")
    home.create()
    keyring.add_group(home, "news", NEWS)
    return Subscribed(home)


async def test_a_group_that_an_earlier_run_has_joined_by_its_key_stays_when_a_name_is_removed(
    subscribed: Subscribed,
) -> None:
    async with one_run(subscribed) as first:
        await first.change(c.Join("news"))
        await first.change(c.Join(OTHER.group.hex(), raw=True))
    keyring.remove_group(subscribed.home, "news")
    async with one_run(subscribed) as second:
        await second.change(c.Join("news"))
        await second.look()
    assert subscribed.groups == {OTHER.group}


async def test_a_group_that_was_joined_by_its_key_and_by_its_name_stays_when_the_name_is_removed(
    subscribed: Subscribed,
) -> None:
    async with one_run(subscribed) as first:
        for group in ("news", NEWS.group.hex(), "news"):
            await first.change(c.Join(group, raw=True))
        keyring.remove_group(subscribed.home, "news")
        await first.look()
        assert subscribed.groups == {NEWS.group}
    async with one_run(subscribed) as second:
        await second.look()
    assert subscribed.groups == {NEWS.group}


@pytest.mark.parametrize("wished", [True, False])
async def test_a_group_whose_name_was_removed_while_the_service_was_stopped_is_left(
    subscribed: Subscribed, wished: bool
) -> None:
    async with one_run(subscribed) as first:
        await first.change(c.Join("news"))
    keyring.remove_group(subscribed.home, "news")
    async with one_run(subscribed) as second:
        if wished:
            await second.change(c.Join("news"))
        await second.look()
        assert not subscribed.groups


async def test_a_group_whose_name_was_given_to_another_while_the_service_was_stopped_is_left_for_that_one(
    subscribed: Subscribed,
) -> None:
    async with one_run(subscribed) as first:
        await first.change(c.Join("news"))
    keyring.remove_group(subscribed.home, "news")
    keyring.add_group(subscribed.home, "news", OTHER)
    async with one_run(subscribed) as second:
        await second.change(c.Join("news"))
        assert subscribed.groups == {OTHER.group}
    async with one_run(subscribed) as third:
        await third.change(c.Leave("news"))
        assert not subscribed.groups


async def test_a_group_that_was_renamed_while_the_service_was_stopped_goes_with_its_new_name(
    subscribed: Subscribed,
) -> None:
    async with one_run(subscribed) as first:
        await first.change(c.Join("news"))
    keyring.add_group(subscribed.home, "renamed", NEWS, rename=True)
    async with one_run(subscribed) as second:
        await second.look()
        assert subscribed.groups == {NEWS.group}
        keyring.remove_group(subscribed.home, "renamed")
        await second.look()
        assert not subscribed.groups


async def test_a_state_that_knows_no_named_groups_lets_nothing_be_left(subscribed: Subscribed) -> None:
    subscribed.groups = {NEWS.group, OTHER.group}
    keyring.remove_group(subscribed.home, "news")
    async with one_run(subscribed) as run:
        await run.change(c.Join("news"))
        await run.look()
    assert subscribed.groups == {NEWS.group, OTHER.group}


async def test_a_group_that_is_not_answered_holds_up_no_other_and_of_two_wishes_the_later_holds(tmp_path: Path) -> None:
    node = Silent()
    place, state = SimpleNamespace(home=Home(tmp_path), key=SigningKey(bytes(32))), State(tmp_path / "state")
    host = SimpleNamespace(node=node, place=place, state=state)
    one = Memberships(host, lambda heard: None, lambda deed, error: None)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        for wish in (c.Join(KEYS[0]), c.Join(KEYS[1]), c.Join(KEYS[2])):
            nursery.start_soon(one.change, wish)
        while len(node.joined) < 2:
            await trio.sleep(0.01)
        for leave in (c.Leave(KEYS[1]), c.Leave(KEYS[0])):
            nursery.start_soon(one.change, leave)
        await trio.testing.wait_all_tasks_blocked()
        assert node.joined == [KEYS[2]]
        nursery.cancel_scope.cancel()
    state.close()
