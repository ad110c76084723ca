"""Keep an actor running: restart it whenever it fails, after a growing pause."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pykka
import trio

from router.actors.actor import TrioActor
from router.core.service.back_off import BackOff
from router.core.wire.errors import cause_of
from router.core.wire.text import SUBJECT

log = logging.getLogger(__name__)


class Supervisor(TrioActor):
    """Starts one actor and restarts it when it fails; ends when that actor is stopped on purpose.

    `start` starts the actor (`lambda: PubSub.start(key)`), whose `on_start` publishes its reference. `progress` counts
    the work that the actor has finished, over all its lives: after a life that finished some, the pause is the shortest
    again. `on_problem` is called with the reason of each failure; if it returns True, the actor is not started again,
    and nothing is logged. `name` is the actor's name in the log.
    """

    logs_failures = True

    def __init__(
        self,
        start: Callable[[], pykka.ActorRef[Any]],
        draw: Callable[[], float],
        back_off: BackOff,
        progress: Callable[[], int] = lambda: 0,
        on_problem: Callable[[str], bool | None] | None = None,
        name: str = "",
    ) -> None:
        super().__init__()
        self.child: pykka.ActorRef[Any] | None = None
        self.failures_in_a_row = 0
        self._start = start
        self._draw = draw
        self._back_off = back_off
        self._begun_s = 0.0
        self._progress = progress
        self._progress_at_start = 0
        self._on_problem = on_problem
        self._name = name

    def on_start(self) -> None:
        self._begin()

    def on_child_end(self, child: pykka.ActorRef[Any], failure: Exception | None) -> None:
        self.child = None
        if failure is None:
            self.stop()
        else:
            self._begin_again(child.actor_class.__name__, failure)

    def _begin(self) -> None:
        self._begun_s, self._progress_at_start = trio.current_time(), self._progress()
        try:
            self.child = self._start()
        except Exception as error:  # whatever its constructor raises
            self._begin_again("a start", error)

    def _begin_again(self, what: str, failure: Exception) -> None:
        calm = trio.current_time() - self._begun_s >= self._back_off.calm_s
        calm |= self._progress() > self._progress_at_start
        self.failures_in_a_row = count = 1 if calm else self.failures_in_a_row + 1
        pause_s = self._back_off.pause_s(count, self._draw())
        why = cause_of(failure)
        if self._on_problem is not None and self._on_problem(why):
            self.stop()
            return
        text = "%s failed (%d in a row): %s; starting again in %.1f s"
        log.warning(text, self._name or what, count, why, pause_s, extra={SUBJECT: self._name})
        self.nursery.start_soon(self._begin_after, pause_s)

    async def _begin_after(self, pause_s: float) -> None:
        await trio.sleep(pause_s)
        self._begin()
