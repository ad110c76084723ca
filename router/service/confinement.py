"""Confine a failure of a service's rules to what they heard, as `event_failures` says for each event."""

from __future__ import annotations

from collections.abc import Callable

from router.client.received import Received
from router.core.wire.errors import RouterError, cause_of
from router.core.wire.text import counted, key_text, short
from router.disk.state.environment import StateError
from router.service import contract as c
from router.service.attempts import Attempts, FailuresInARow
from router.service.confined_failures import ConfinedFailures
from router.service.cycle_changes import CycleChanges, Source
from router.service.deed_checks import DeedChecks
from router.service.event_failures import Remedy, as_failed, named, remedy_of

GOES_ON = "; all others go on"


class FailedTooOften(RouterError):
    """The rules fail on events of one kind, one after the other; the text says on which, and why the last time."""


class Confinement:
    """`end` ends a stream; `hear` lets the rules hear something at once, `later` after a pause that grows with the
    number of failures; `tick` asks for a `Tick` after such a pause."""

    def __init__(
        self,
        told: ConfinedFailures,
        in_a_row: FailuresInARow,
        attempts_max: int,
        end: Callable[[str, str], None],
        hear: Callable[[c.Heard], None],
        later: Callable[[int, c.Heard], None],
        tick: Callable[[int], None],
    ) -> None:
        self._told = told
        self._in_a_row = in_a_row
        self._attempts = Attempts(attempts_max)
        self._end = end
        self._hear = hear
        self._later = later
        self._tick = tick

    def __repr__(self) -> str:
        return f"<confinement of {self._told!r}, {self._in_a_row!r}>"

    def went_well(self, heard: c.Heard) -> None:
        """Record that this was heard without a failure."""
        self._in_a_row.went_well(type(heard))

    def confine(
        self, cycle: CycleChanges, checks: DeedChecks, heard: c.Heard, source: Source, error: Exception
    ) -> Exception | None:
        """Add to the cycle what becomes of the event instead; return the cause for which the service has to start
        again, None if it goes on."""
        remedy = Remedy.RESTART if isinstance(error, StateError | c.CannotServe) else remedy_of(type(heard))
        if isinstance(source, Received):
            if remedy is not Remedy.AGAIN:
                return error
            cycle.failed.append((source, error))
        elif source is not None:
            cycle.awaited.append(source)
        match heard:
            case _ if remedy is Remedy.RESTART:
                return error
            case c.Message():
                pass  # counted after the cycle, so that nothing is refused which may yet come again
            case c.Opened(door, peer) | c.Came(door, peer):
                self._end(door, peer)
                said = "a stream is closed for it, all others go on"
                self._told.tell(f"door {door}", f'failed on what came at its door "{door}"; {said}', error)
            case c.Asked(number, word):
                checks.answered(number)
                said = f"the service failed on this question: {cause_of(error)}"
                cycle.deeds.append(c.Answer(number, {"error": said}))
                self._told.tell("question", f'failed on the question "{word}", and goes on', error)
            case c.Sent():
                self._hear_sent_again(cycle, heard, error)
            case _ if remedy is Remedy.AS_FAILED and (failed := as_failed(heard, cause_of(error))) is not None:
                self._tell(heard, "which counts as failed", error)
                self._hear(failed)
            case _ if remedy is Remedy.COUNT:
                return self._count(heard, error)
            case _:
                self._tell(heard, "which is passed over", error)
        return None

    def _tell(self, heard: c.Heard, what: str, error: Exception) -> None:
        self._told.tell(type(heard).__name__, f"failed on {named(heard)}, {what}{GOES_ON}", error)

    def message(self, one: Received, failures: int, error: Exception) -> None:
        """Tell that a message is heard again, on which the rules have failed so often."""
        which = short(key_text("msg", one.id))
        text = f"failed {counted(failures, 'time')} on message {which}, which it hears again later{GOES_ON}"
        self._told.tell("message", text, error)

    def _hear_sent_again(self, cycle: CycleChanges, sent: c.Sent, error: Exception) -> None:
        failures = self._attempts.fail((sent.tag, sent.id))
        if failures < self._attempts.most:
            self._tell(sent, "which it hears again later", error)
            self._later(failures, sent)
            return
        self._attempts.forget((sent.tag, sent.id))
        cycle.told.append(sent)
        fate = f"was refused: {sent.refused.word}" if sent.refused is not None else "is in custody"
        which = short(key_text("msg", sent.id))
        self._tell(sent, f"{counted(failures, 'time')}; message {which} {fate}, and that is passed over", error)

    def _count(self, heard: c.Heard, error: Exception) -> Exception | None:
        kind = type(heard)
        count, is_over = self._in_a_row.fail(kind)
        if is_over:
            said = f"its rules failed on {kind.__name__} {count} times in a row, the last time: {cause_of(error)}"
            failed = FailedTooOften(said)
            failed.__cause__ = error
            return failed
        self._tell(heard, f"{counted(count, 'time')} in a row, which is passed over", error)
        if kind is c.Tick:
            self._tick(count)
        return None
