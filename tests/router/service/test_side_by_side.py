"""Requests of a service go side by side: one whose answer is lost holds up no other, and messages no longer than a
second."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

from router.core.wire.admin import with_number, without_number
from router.core.wire.crypto import MessageId, SigningKey
from router.service.memberships import IN_TURN_S
from router.service.request_queue import RequestQueue
from router.service.requests import Requests
from router.service.roles import overlay as o
from router.service.sending import ToSend
from router.service.verbs.dial import Dial
from router.service.verbs.pull_from import PullsFrom
from router.service.verbs.verb import Deed, Request


def test_a_number_stands_before_the_text_or_there_is_none() -> None:
    assert without_number(with_number(17, '{"a": "#1 b"}')) == (17, '{"a": "#1 b"}')
    for text in ("", "{}", "# {}", "#x {}", "#-1 {}", "#1", "#²  {}", f"#{10**18} {{}}"):
        assert without_number(text) == ((1, "") if text == "#1" else (None, text))


class Quiet:
    """The host of a service whose router answers no request."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.asked = list[Request]()

    async def begin_asking(self, request: Request) -> Callable[[], Awaitable[dict[str, Any]]]:
        self.asked.append(request)
        return self.silence

    async def silence(self) -> dict[str, Any]:
        await trio.sleep_forever()
        return {}


@asynccontextmanager
async def queue_of_quiet() -> AsyncIterator[tuple[Quiet, Requests, RequestQueue, list[float]]]:
    """Yield a host that gets no answers, its requests and their queue, and the seconds at which messages went."""
    began_s, sent = trio.current_time(), list[float]()
    async with trio.open_nursery() as nursery:
        host: Any = Quiet(nursery)
        requests = Requests(host, lambda heard: None, lambda deed, error: None)

        def send(ready: object) -> None:
            sent.append(trio.current_time() - began_s)

        queue = RequestQueue(requests.do, send, requests.until_answered)
        nursery.start_soon(queue.run)
        yield host, requests, queue, sent
        nursery.cancel_scope.cancel()


KEYS = [SigningKey(bytes((n,)) * 32).public for n in range(1, 4)]


async def test_questions_go_side_by_side_and_messages_do_not_wait_for_their_answers(autojump_clock: object) -> None:
    async with queue_of_quiet() as (host, requests, queue, sent):
        for group in KEYS:
            host.nursery.start_soon(requests.do, o.ListHeld(group))
        pulls = [o.PullFrom(KEYS[0], group, MessageId(bytes(32))) for group in KEYS]
        for pull in pulls:
            if requests.begins(pull):
                queue.put(pull)
        queue.put([])
        await trio.sleep(1)
        asked = [*map(o.ListHeld, KEYS), *[PullsFrom.of([pull]) for pull in pulls]]
        assert sorted(host.asked, key=repr) == sorted(asked, key=repr) and sent == [0]


async def test_requests_go_side_by_side_and_messages_wait_for_their_answers_a_second_at_most(
    autojump_clock: object,
) -> None:
    async with queue_of_quiet() as (host, _, queue, sent):
        decided: list[Deed | list[ToSend]] = [Dial(KEYS[0]), Dial(KEYS[1]), [], [], Dial(KEYS[2])]
        for one in decided:
            queue.put(one)
        await trio.sleep(10)
        assert host.asked == [Dial(key) for key in KEYS], "in their order"
        assert sent == [IN_TURN_S] * 2, "and no second time for the same answers"
