"""Events on which rules have failed, and that they hear again after a pause."""

from __future__ import annotations

from collections.abc import Callable

import trio

from router.client.received import Received
from router.core.service.back_off import BackOff
from router.service import contract as c
from router.service.cycle_changes import Source
from router.service.host import Service

ASIDE_MAX = 8
"""Most events that wait aside; others are heard again at once, so that a crowd of them holds up no other message."""


class HeardAgain:
    """`hear` lets the rules hear an event again, with its source."""

    def __init__(
        self, host: Service, pauses: BackOff, chance: c.Chance, hear: Callable[[c.Heard, Source], None]
    ) -> None:
        self._host = host
        self._pauses = pauses
        self._chance = chance
        self._hear = hear
        self._aside = 0

    def __repr__(self) -> str:
        return f"<{self._aside} of at most {ASIDE_MAX} events wait to be heard again>"

    def pause_s(self, failures: int) -> float:
        """Return the pause after so many failures."""
        return self._pauses.pause_s(failures, self._chance.random())

    def later(self, failures: int, heard: c.Heard, source: Source = None) -> None:
        """Let the rules hear it again after a pause, or at once if many wait already."""
        if self._aside < ASIDE_MAX:
            self._aside += 1
            self._host.nursery.start_soon(self._wait, self.pause_s(failures), heard, source)
        else:
            self._hear(heard, source)

    async def _wait(self, pause_s: float, heard: c.Heard, source: Source) -> None:
        await trio.sleep(pause_s)
        self._aside -= 1
        if isinstance(source, Received) and self._host.state.has_heard(source.id):  # it came again over a new link
            await source.settle()
        else:
            self._hear(heard, source)
