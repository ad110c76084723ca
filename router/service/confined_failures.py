"""Failures of a service that stop only what they are about: the operator is told of them, and the service goes on."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import ParamSpec, TypeVar

import trio
from msgspec import Struct

from router.actors.actor import as_failure
from router.core.wire.errors import cause_of
from router.core.wire.text import counted, printable
from router.service.verbs.verb import Deed

SAY_AGAIN_S = 10.0
"""Seconds between two sentences about failures of one kind; those in between are counted."""
KINDS_MAX = 1_000
"""Most kinds that are told apart; the oldest is forgotten first."""


P = ParamSpec("P")
T = TypeVar("T")


class _Told(Struct):
    """When failures of one kind were told of, and how many there were since."""

    at_s: float = -inf
    since: int = 0


class ConfinedFailures:
    """Tells of them: `log` gets the sentence and the failure, `warn` the sentence as the operator reads it."""

    def __init__(self, log: Callable[[str, Exception], None], warn: Callable[[str], None]) -> None:
        self._log = log
        self._warn = warn
        self._told: dict[str, _Told] = {}

    def __repr__(self) -> str:
        return f"<{len(self._told)} kinds of failures told of>"

    def tell(self, kind: str, text: str, error: Exception) -> None:
        """Tell of a failure; `text` goes on with its cause."""
        told, now_s = self._told.setdefault(kind, _Told()), trio.current_time()
        if now_s - told.at_s < SAY_AGAIN_S:
            told.since += 1
            return
        more = f" (and {counted(told.since, 'time')} more since the last such sentence)" if told.since else ""
        told.at_s, told.since = now_s, 0
        while len(self._told) > KINDS_MAX:
            del self._told[next(iter(self._told))]
        said = printable(f"{text}: {cause_of(error)}{more}")
        self._log(said, error)
        self._warn(f"it {said}")

    def doubt(self, deed: Deed, error: Exception) -> None:
        """Tell of a deed that the router will not carry out."""
        self.tell(f"{type(deed).__name__} range", "asked its router for what that does not do", error)

    def guarded(self, what: str, own: Callable[P, T], instead: T) -> Callable[P, T]:
        """Return a function that calls the service's own one, and tells of a failure in it and returns `instead`."""

        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return own(*args, **kwargs)
            except BaseException as error:
                self.tell(what, f"failed in {what}, and goes on", as_failure(error, KeyboardInterrupt))
                return instead

        return call

    def was_not_done(self, deed: Deed, error: Exception) -> None:
        """Tell of a deed that could not be carried out, other than those beside it."""
        name = type(deed).__name__
        self.tell(name, f"returned {name}, which was not done; all else was", error)
