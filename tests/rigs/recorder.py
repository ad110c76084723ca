"""Actors for tests that record their messages in a diary."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pykka
import trio

from router.actors.actor import TrioActor


class Recorder(TrioActor):
    """Records messages in a diary that the test reads, and raises those that are exceptions."""

    def __init__(self, diary: list[Any], name: str = "recorder") -> None:
        super().__init__()
        self.diary = diary
        self.name = name

    def on_start(self) -> None:
        self.diary.append(f"{self.name} starts")

    def on_stop(self) -> None:
        self.diary.append(f"{self.name} stops")

    def on_failure(self, kind: object, failure: BaseException | None, traceback: object) -> None:
        self.diary.append(f"{self.name} fails: {failure!r}")

    def on_child_end(self, child: pykka.ActorRef[Any], failure: Exception | None) -> None:
        self.diary.append(f"{self.name} lost {child.actor_class.__name__}: {failure!r}")

    def on_receive(self, message: Any) -> Any:
        if isinstance(message, Exception):
            raise message
        self.diary.append(message)
        return message


class Sleeper(Recorder):
    async def on_receive(self, message: Any) -> Any:
        await trio.sleep(message)
        return f"slept {message} s"

    async def double(self, number: int) -> int:
        await trio.lowlevel.checkpoint()
        return 2 * number


def tell_all(ref: pykka.ActorRef[Any], what: Iterable[object]) -> None:
    for message in what:
        ref.tell(message)


async def ask(ref: pykka.ActorRef[Any], message: Any) -> Any:
    return await ref.ask(message, block=False)
