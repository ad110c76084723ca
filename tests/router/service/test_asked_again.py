"""Requests that the router has no room to answer are made again, unless a later one about the same has been made."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from itertools import pairwise
from random import Random
from typing import Any

import pytest
import trio

from router.client.errors import Refused
from router.core.control.reception import NO_ROOM
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.reasons import Reason
from router.service.host import SaidError
from router.service.passing import PartsToSay
from router.service.requests import AGAIN, AGAIN_MAX, REFUSED_MAX, Requests
from router.service.roles import overlay as o
from router.service.verbs.add_neighbour import AddNeighbour, NeighbourAdded
from router.service.verbs.caught_up import CaughtUp
from router.service.verbs.grant import Grant
from router.service.verbs.listen import Listen
from router.service.verbs.share_groups import GROUPS_MAX
from router.service.verbs.take_part import TakeParts
from router.service.verbs.verb import Deed, Request

FIRST, SECOND = (SigningKey(bytes((n,)) * 32).public for n in (1, 2))


class FullHost:
    """The host of a service whose router refuses each request until it `has_room`; `asked_s`: at which seconds."""

    log = logging.getLogger(__name__)

    def __init__(self, nursery: trio.Nursery, reason: Reason = NO_ROOM[0]) -> None:
        self.nursery = nursery
        self.has_room = False
        self.asked = list[Request]()
        self.asked_s = list[float]()
        self._reason = reason
        self.node = self
        self.read_as_published = set[PublicKey]()

    def as_published(self, groups: list[PublicKey], others: list[PublicKey]) -> None:
        """Do what the client's connection does of groups in which the service takes part."""
        self.read_as_published.difference_update(others)
        self.read_as_published.update(groups)

    def __repr__(self) -> str:
        return "a full host"

    def refuse_with(self, reason: Reason) -> None:
        self._reason = reason

    async def begin_asking(self, request: Request) -> Callable[[], Awaitable[dict[str, Any]]]:
        self.asked.append(request)
        self.asked_s.append(trio.current_time())
        is_refused = not self.has_room

        async def answer() -> dict[str, Any]:
            await trio.lowlevel.checkpoint()
            if is_refused:
                raise Refused(self._reason, NO_ROOM[1])
            return {}

        return answer


async def asked(deeds: list[Deed], later: list[Deed], reason: Reason = NO_ROOM[0]) -> list[Request]:
    """Return the requests of these deeds while there is no room, and of those `later`, once there is some, before the
    first are made again."""
    async with trio.open_nursery() as nursery:
        host: Any = FullHost(nursery, reason)
        requests = Requests(host, lambda heard: None, lambda deed, error: None, Random(1).random)
        for deed in deeds:
            if requests.begins(deed):
                await requests.do(deed)
        await trio.sleep(AGAIN.pause_s_min / 4)
        host.has_room = True
        for deed in later:
            if requests.begins(deed):
                await requests.do(deed)
        await trio.sleep(10 * AGAIN.pause_s_min)
        nursery.cancel_scope.cancel()
    return list(host.asked)


async def test_a_part_that_was_refused_for_want_of_room_is_taken_once_there_is_some(autojump_clock: object) -> None:
    part = o.TakePart(FIRST, "ids")
    assert await asked([part], []) == [TakeParts.of({FIRST: "ids"})] * 2


async def test_of_two_parts_in_a_group_the_later_one_holds_also_when_the_first_was_refused(
    autojump_clock: object,
) -> None:
    found = await asked([o.TakePart(FIRST), o.TakePart(SECOND)], [o.TakePart(FIRST, "none")])
    assert found[-2:] == [TakeParts.of({FIRST: "none"}), TakeParts.of({SECOND: "whole"})]


async def test_each_request_is_made_again_unless_a_later_one_is_about_the_same(autojump_clock: object) -> None:
    before, other, after = Grant(FIRST, ("join",)), Grant(SECOND, ("join",)), Grant(FIRST)
    assert await asked([before, other], [after]) == [before, other, after, other]


async def test_what_may_not_be_accepted_later_is_not_made_again(autojump_clock: object) -> None:
    assert await asked([Grant(FIRST)], [], Reason.NOT_AUTHORISED) == [Grant(FIRST)]


async def test_the_requests_that_are_made_again_are_bounded(autojump_clock: object) -> None:
    keys = [SigningKey(n.to_bytes(32, "big")).public for n in range(1, AGAIN_MAX + 3)]
    assert len(await asked([Grant(key) for key in keys], [])) == 2 * AGAIN_MAX + 2


async def until_room(deeds: list[Deed], room_after_s: float) -> tuple[list[Request], list[float]]:
    """Return what is asked until a minute after there is room, and when."""
    async with trio.open_nursery() as nursery:
        host: Any = FullHost(nursery)
        requests = Requests(host, lambda heard: None, lambda deed, error: None, Random(1).random)
        began_s = trio.current_time()
        for deed in deeds:
            if requests.begins(deed):
                await requests.do(deed)
        await trio.sleep(room_after_s)
        host.has_room = True
        await trio.sleep(60)
        nursery.cancel_scope.cancel()
    return list(host.asked), [at_s - began_s for at_s in host.asked_s]


@pytest.mark.parametrize("deed", [Grant(FIRST, ("join",)), o.TakePart(FIRST)])
async def test_the_pause_before_a_request_is_made_again_doubles_up_to_a_limit(
    deed: Deed, autojump_clock: object
) -> None:
    _, asked_s = await until_room([deed], 300)
    pauses = [later - earlier for earlier, later in pairwise(asked_s)]
    longest = [min(AGAIN.pause_s_max, AGAIN.pause_s_min * 2**number) for number in range(len(pauses))]
    assert longest[:3] == [1, 2, 4] and longest[-1] == 30
    assert all(most / 2 <= pause <= most for most, pause in zip(longest, pauses, strict=True))


async def test_requests_of_one_moment_are_made_again_at_different_times(autojump_clock: object) -> None:
    keys = [SigningKey(n.to_bytes(32, "big")).public for n in range(1, 101)]
    asked, asked_s = await until_room([Grant(key) for key in keys], 0.1)
    assert len(asked) == 200 and len(set(asked_s[100:])) == 100
    assert asked_s[-1] - asked_s[100] > AGAIN.pause_s_min / 3


@pytest.mark.parametrize("pages", [1, 2])
async def test_a_lasting_refusal_that_the_rules_hear_of_is_logged_once(
    pages: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    groups = [SigningKey(n.to_bytes(32, "big")).public for n in range(1, 2 + GROUPS_MAX * (pages - 1))]
    heard = list[object]()
    async with trio.open_nursery() as nursery:
        host: Any = FullHost(nursery, Reason.NOT_AUTHORISED)
        requests = Requests(host, heard.append, lambda deed, error: None)

        async def share() -> int:
            """Return how many lines the log has now."""
            for page in o.ShareGroups.pages(FIRST, groups, until_s=1):
                host.has_room = page.more  # the first page of two is accepted
                await requests.do(page)
                await requests.until_answered()
            return len(caplog.messages)

        assert [await share() for _ in range(3)] == [1, 1, 1]
        host.refuse_with(Reason.MALFORMED)
        assert [await share() for _ in range(2)] == [2, 2]
    assert len(heard) == 5 and "ShareGroups was not done: refused, not-authorised" in caplog.messages[0]


async def test_a_refusal_after_a_success_is_logged_again_and_few_are_remembered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    keys = [SigningKey(n.to_bytes(32, "big")).public for n in range(1, REFUSED_MAX + 2)]
    async with trio.open_nursery() as nursery:
        host: Any = FullHost(nursery, Reason.NOT_AUTHORISED)
        requests = Requests(host, lambda heard: None, lambda deed, error: None)

        async def lines(keys: list[PublicKey], has_room: bool = False) -> int:
            host.has_room = has_room
            before = len(caplog.messages)
            for key in keys:
                await requests.do(o.ShareGroups(key, (FIRST,), until_s=1))
                await requests.until_answered()
            return len(caplog.messages) - before

        assert await lines(keys[-1:]) == 1
        assert await lines(keys[-1:], has_room=True) == 0
        assert await lines(keys[-1:]) == 1
        assert await lines(keys[:-1]) == REFUSED_MAX
        assert await lines(keys[-1:]) == 1, "the oldest is forgotten"


class Fails(FullHost):
    """The host of a service whose router answers each request with this error."""

    def __init__(self, nursery: trio.Nursery, error: Exception) -> None:
        super().__init__(nursery)
        self._error = error

    async def begin_asking(self, request: Request) -> Callable[[], Awaitable[dict[str, Any]]]:
        self.asked.append(request)

        async def answer() -> dict[str, Any]:
            raise self._error

        return answer


@pytest.mark.parametrize("how", ["lan", ""])
async def test_rules_hear_at_once_that_a_neighbour_of_a_lan_was_not_added_and_the_operator_does_too(how: str) -> None:
    heard, told = list[object](), list[str]()
    async with trio.open_nursery() as nursery:
        host: Any = Fails(nursery, SaidError("the book is full"))
        requests = Requests(host, heard.append, lambda deed, error: told.append(str(error)))
        await requests.do(AddNeighbour(FIRST, ("tls://192.0.2.7:1",), 9, how=how))  # type: ignore[arg-type]
    assert told == ["the book is full"]
    assert heard == ([NeighbourAdded(FIRST, "the book is full")] if how else [])


async def test_rules_hear_nothing_of_a_neighbour_whose_request_is_made_again(autojump_clock: object) -> None:
    """While the router has no room for it, no further report should take its place."""
    heard = list[object]()
    async with trio.open_nursery() as nursery:
        host: Any = FullHost(nursery)
        requests = Requests(host, heard.append, lambda deed, error: None)
        await requests.do(AddNeighbour(FIRST, ("tls://192.0.2.7:1",), 9, how="lan"))
        await trio.sleep(AGAIN.pause_s_min / 4)
        assert not heard
        host.has_room = True
    assert heard == [NeighbourAdded(FIRST)] and len(host.asked) == 2


def test_parts_that_are_answered_are_not_said_again() -> None:
    parts = PartsToSay()
    assert parts.add(o.TakePart(FIRST))
    [request] = parts.take()
    parts.answered(request)
    assert not parts.again(request) and parts.take() == []


def test_what_a_request_is_about() -> None:
    assert Listen("tls://:1").about == Listen("").about
    assert CaughtUp(FIRST, 1).about != CaughtUp(FIRST, 2).about


async def test_groups_that_were_refused_are_left_to_the_rules_that_hear_of_it(autojump_clock: object) -> None:
    """Of several pages one that is said again behind later ones is out of its place."""
    pages = [*o.ShareGroups.pages(FIRST, [SECOND] * 600, 7)]
    found = list[Deed | o.GroupsShared]()
    async with trio.open_nursery() as nursery:
        host: Any = FullHost(nursery)
        requests = Requests(host, found.append, lambda deed, error: None, Random(1).random)  # type: ignore[arg-type]
        for page in pages:
            await requests.do(page)
        await trio.sleep(100 * AGAIN.pause_s_max)
        nursery.cancel_scope.cancel()
    assert host.asked == pages and found == [o.GroupsShared(FIRST, False)] * 2


async def test_groups_in_which_a_service_takes_part_are_read_as_they_were_published(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        host: Any = FullHost(nursery)
        requests = Requests(host, lambda heard: None, lambda deed, error: None)
        for part in (o.TakePart(FIRST, "ids"), o.TakePart(SECOND, "whole"), o.TakePart(FIRST, "none")):
            assert requests.begins(part)
            await requests.do(part)
        nursery.cancel_scope.cancel()
    assert host.read_as_published == {SECOND}
