"""What the router has told of itself, and when it is asked again: however many look, it is asked once."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

import msgspec

from router.core.wire.admin import rows_in
from router.core.wire.text import counted
from router.overview.facts import NodeFacts, with_answer
from router.overview.forecasts import Forecasts
from router.overview.hour import Hour
from router.overview.notices import LATELY_S, Situation
from router.service import contract as c
from router.service.verbs.inquire import Word

from .view import View

WATCHED_S = 1.0
"""Seconds between two rounds of questions while somebody looks."""
QUIET_S = 10.0
"""Seconds between two rounds while nobody does, so that there is an hour to show when somebody comes."""
PATIENCE_S = 5.0
"""Seconds after which a question counts as unanswered."""
ROWS_OFTEN_MAX = 256
"""Rows of an answer up to which its question is asked in each round; a longer one in each tenth only, since the router
makes it between two batches of messages."""
RARELY = 10
CALM_WORDS: tuple[Word, ...] = ("status", "groups")
"""Questions whose answers change seldom: they are asked in each fifth round."""
CALM = 5
TAG = "operator/"
WATCHED: tuple[Word, ...] = ("metrics", "queue", "status", "peers", "groups")
QUIET: tuple[Word, ...] = ("metrics", "queue")


class Board:
    """The facts, the last hour, and the questions that are open."""

    def __init__(self) -> None:
        self._facts = NodeFacts()
        self._hour = Hour()
        self._forecasts = Forecasts()
        self._open: set[str] = set()
        self._asked_s = self._whole_s = -inf
        self._is_whole = False  # the round asks for all that the page shows
        self._rests: dict[str, int] = {}  # rounds for which a question with a long answer is left out

    def __repr__(self) -> str:
        return f"<board: {counted(len(self._open), 'question')} open, {self._hour!r}>"

    # -- asking --------------------------------------------------------------------------------------------

    def begin(self, now: c.Now) -> None:
        """Begin the first pause: a router that has just started has little to tell."""
        self._asked_s = now.mono_s

    def ask(self, now: c.Now, *, is_watched: bool) -> Iterator[c.Inquire]:
        """Ask the router, if it is time."""
        begins = is_watched and not self._is_whole and not self._open
        pause_s = WATCHED_S if is_watched else QUIET_S
        if not begins and now.mono_s - self._asked_s < pause_s - WATCHED_S / 2:  # a clock wakes a little early or late
            return
        if self._open:
            if now.mono_s - self._asked_s < PATIENCE_S:
                return
            self._fail(f"what it was asked {PATIENCE_S:g} s ago is open still", now)
        if is_watched and now.mono_s - self._whole_s > QUIET_S:
            self._rests.clear()
        self._asked_s, self._is_whole = now.mono_s, is_watched
        words = WATCHED if is_watched else QUIET
        resting = [word for word in words if self._rests.get(word, 0) > 0]
        for word in resting:
            self._rests[word] -= 1
        asked = [word for word in words if word not in resting]
        self._open.update(asked)
        yield from (c.Inquire(word, "", f"{TAG}{word}") for word in asked)

    def is_fresh(self, now: c.Now) -> bool:
        """Whether all that the page shows was told just now."""
        return now.mono_s - self._whole_s <= 2 * WATCHED_S

    # -- being told ----------------------------------------------------------------------------------------

    def told(self, heard: c.Told, now: c.Now) -> bool:
        """Take an answer; return whether there is something new to show: the round is whole, or has failed."""
        if heard.tag != f"{TAG}{heard.word}" or heard.word not in self._open:
            return False
        self._open.discard(heard.word)
        if heard.error:
            self._fail(heard.error, now)
            return True
        try:
            self._facts = with_answer(self._facts, heard.word, rows_in(heard.answer))
        except msgspec.ValidationError as error:
            self._fail(f"its answer to {heard.word} is of another version ({error})", now)
            return True
        self._note(heard, now)
        if self._open or not self._is_whole:
            return False
        self._facts = msgspec.structs.replace(self._facts, problem="")
        self._whole_s = now.mono_s
        return True

    def _note(self, heard: c.Told, now: c.Now) -> None:
        """Keep what the hour and the forecasts need of an answer, and how long it was."""
        if heard.word == "metrics":
            self._hour.add(self._facts.metrics, now.mono_s)
        elif heard.word == "queue":
            self._forecasts.add(self._facts.queues, now.mono_s)
        rows = rows_in(heard.answer)
        if isinstance(rows, list) and len(rows) > ROWS_OFTEN_MAX:
            self._rests[heard.word] = RARELY - 1
        elif heard.word in CALM_WORDS:
            self._rests[heard.word] = CALM - 1

    def _fail(self, text: str, now: c.Now) -> None:
        self._facts = msgspec.structs.replace(self._facts, problem=text)
        self._open.clear()
        self._whole_s = now.mono_s

    # -- showing -------------------------------------------------------------------------------------------

    @property
    def facts(self) -> NodeFacts:
        return self._facts

    def view(self, now: c.Now) -> View:
        """Return what the page shows now."""
        forecasts = {one.recipient: self._forecasts.of(one) for one in self._facts.queues}
        seen = Situation(
            self._facts,
            forecasts,
            self._hour.ended(now.mono_s, LATELY_S),
            self._hour.accepted(now.mono_s, LATELY_S),
        )
        return View(seen, self._hour.series(now.mono_s), self._hour.ended(now.mono_s), now.wall_s)
