"""Report the fates of the messages that a command handed in: printed at once, and summed up in the exit code."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from math import inf
from time import monotonic
from typing import Any

import trio

from router.cli.command import invocation
from router.cli.exits import Exit, Failure, Interrupted, is_interrupt, leave_output, unwritten
from router.cli.output import for_this_home, hint, note, say, say_json, short_text
from router.cli.services import know_reasons
from router.client.errors import ClientError, NodeUnavailable, NoPrekey, Refused
from router.client.outcomes import TERMINAL, Outcomes
from router.core.log.events import reason_word
from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.link_items import RecipientOutcome
from router.core.wire.reasons import SERVICES_MIN, Reason, reason_from
from router.core.wire.text import counted, key_text, short
from router.settings.names import Names

HEARD_S = 1.0
UNREAD = (
    "this node knows nobody who reads that group; on a local network subscribe to it here too (`router sub`), as only "
    "then others are found who read it, and elsewhere connect to a core (`router peer add`)"
)
UNTAKEN = (
    "this node keeps such messages for readers at other nodes, unless its service for that has met a bound or does not "
    "run: `router pub` says which bound, and `router status` whether it runs; publish it again later, and in many "
    "groups with a kept key (`--as`)"
)
UNREACHED = (
    "this node knows no way to that address: its app signs on once with a kept key (`--as`), here or at a node that "
    "has this one or one of its neighbours as its uplink, or writes first; `router peers` says whether that node is "
    "connected"
)
FULL = (
    "this node takes nothing more until there is room: free some space on the disk of its home, or move the home to a "
    "larger one; `router doctor` says how much is free and how much is to stay so"
)
ADVICE = {Reason.NO_SUBSCRIBERS: UNREAD, Reason.NO_ROUTE: UNREACHED, Reason.DISK_FULL: FULL}
SHOWN_MAX = 5
APART_S = 1.0
"""Seconds between two lines about refusals for one reason; those in between are counted, and the next line says how
many they were."""


def advice(word: str, *, is_kept_for_others: bool) -> str:
    """Return what helps against this node's refusal for the reason with that word; empty if its sentence says all.

    `is_kept_for_others`: this node keeps what nobody here reads for readers at other nodes."""
    said = next((text for reason, text in ADVICE.items() if reason.word == word), "")
    return for_this_home(UNTAKEN if said == UNREAD and is_kept_for_others else said)


class PublishCounts:
    """Counts the fates of the messages. Ids and outcomes go to standard output, refusals to standard error too.

    `passes_on`: the name of the key of this node's service that carries groups to other nodes, and reads nothing.
    `is_kept_for_others`: as of `advice`."""

    def __init__(
        self,
        as_json: bool,
        names: Names | None = None,
        passes_on: str = "",
        clock_s: Callable[[], float] = monotonic,
        *,
        is_kept_for_others: bool = False,
    ) -> None:
        self._as_json = as_json
        self._clock_s = clock_s
        self._refusals: dict[str, tuple[float, int]] = {}  # by reason: when the last line was, how many came since
        self._unnamed = 0
        self._names = names
        self._passes_on = passes_on
        self._nobody = ""
        self._messages = self._refused = self._unfinished = self._turned_down = 0
        self._is_malformed = False
        self._is_kept_for_others = is_kept_for_others
        self._advised: dict[str, None] = {}  # the words of reasons whose refusals did not say all
        self._failure: ClientError | None = None
        self._unheard = ""
        self._rest = ""
        self._last_turned_down: MessageId | None = None

    def __repr__(self) -> str:
        return f"<{self._messages} messages, {self._refused} refused>"

    def is_unheard(self) -> bool:
        """Whether standard output has lost its reader; sending then stops."""
        self._rest = ", the rest was not sent" if self._unheard else ""
        return bool(self._unheard)

    def taken(self, id: MessageId) -> None:
        """Count and print a message that the router has in custody."""
        self._messages += 1
        self._say({"id": id, "custody": True}, key_text("msg", id))

    def followed(
        self, id: MessageId, recipients: Sequence[RecipientOutcome], complete: bool, *, sealed: bool = False
    ) -> None:
        """Count a message in custody, and print the known outcomes of its recipients; `waiting` has printed its id."""
        self._messages += 1
        self._unfinished += not complete
        if any(one.state == "refused" for one in recipients):
            self._turned_down += 1
            self._last_turned_down = id
        self._is_malformed |= any(one.reason == Reason.MALFORMED for one in recipients)
        rows = [{"recipient": one.recipient, "state": one.state, "reason": _word(one.reason)} for one in recipients]
        record = {"id": id, "custody": True, "sealed": sealed, "recipients": rows}
        self._say(record, *map(self._followed, self._readers(recipients)))

    def failed(self, error: ClientError) -> None:
        """Count and print a refused message; remember any other error, by which the node went away before it took the
        message."""
        if not isinstance(error, Refused):
            self._failure = self._failure or error
            return
        self._messages += 1
        self._refused += 1
        if error.reason is not Reason.NO_SUBSCRIBERS or not error.said:
            self._advised[error.reason.word] = None
        self._note_refusal(error)
        self._say({"id": error.message, "custody": False, "reason": error.reason.word})

    def _note_refusal(self, error: Refused) -> None:
        now_s = self._clock_s()
        before_s, count = self._refusals.get(error.reason.word, (-inf, 0))
        is_soon = now_s < before_s + APART_S
        self._unnamed += is_soon
        self._refusals[error.reason.word] = (before_s, count + 1) if is_soon else (now_s, 0)
        if not is_soon:
            note(f"{error}; {count} more were refused for that reason before it" if count else str(error))

    def nothing_read(self) -> None:
        """Say that there was nothing to send, unless a message was handed in, or an error tells why none was."""
        if not self._messages and self._failure is None and not self._unheard:
            note(
                "standard input was empty: nothing was read, so nothing was sent; give messages as BODY, or one a line"
            )

    @property
    def messages(self) -> int:
        """Return how many messages were handed in so far."""
        return self._messages

    def waiting(self, outcomes: Outcomes, wait_s: float) -> None:
        """Print the id of a message just taken; at a terminal, say which recipients are waited for.

        In JSON the id comes with the outcomes, as one object."""
        if not self._as_json:
            self._say({}, key_text("msg", outcomes.id))
        open_ones = [one for one in self._readers(outcomes.recipients) if one.state not in TERMINAL]
        if open_ones:
            whom = ", ".join(map(self._whom, open_ones[:SHOWN_MAX]))
            more = f" and {len(open_ones) - SHOWN_MAX} more" if len(open_ones) > SHOWN_MAX else ""
            hint(f"{short(key_text('msg', outcomes.id))} is in custody; waiting {wait_s:g} s at most for {whom}{more}")

    def heard_of_uplinks(self, id: MessageId, uplinks: Sequence[RecipientOutcome], *, is_read_here: bool) -> None:
        """Remember that all uplinks refused the message; print a note if only apps of this node have it, or if it is
        still unknown whether anybody listens."""
        if any(one.state == "acked" for one in uplinks):
            return
        whom, text = ", ".join(map(self._whom, uplinks)), key_text("msg", id)
        if all(one.state == "refused" for one in uplinks):
            why = reason_from(uplinks[0].reason or 0)
            rest = "; the messages after it are probably refused as well" if self._messages > 1 else ""
            said = f"{short(text)} was refused by {whom}, {why.word}: {why.clause}{rest}"
            if is_read_here:
                more = "" if why is Reason.NO_SUBSCRIBERS else ", and `router peers` says more"
                note(for_this_home(f"{said}; only apps of this node have it{more}"))
            else:
                self._nobody = said
            return
        said = f"it is not known yet whether anybody gets it: nobody on this node does, and it waits for {whom}"
        if is_read_here:
            said = f"only apps of this node have it yet, and it waits for {whom}"
        note(f"{said}; `router why {text}` tells later")

    def _readers(self, recipients: Sequence[RecipientOutcome]) -> Sequence[RecipientOutcome]:
        """Leave out the service of this node that carries groups to others, unless nobody else is a recipient."""
        readers = [one for one in recipients if not self._passes_on or self._name(one) != self._passes_on]
        return readers or recipients

    def _name(self, one: RecipientOutcome) -> str:
        return self._names.of_address(one.recipient.hex()) if self._names and isinstance(one.recipient, bytes) else ""

    def _whom(self, one: RecipientOutcome) -> str:
        if isinstance(one.recipient, int):
            return f"{one.recipient} recipients"
        name = self._name(one)
        return f"{name} ({short_text('addr', one.recipient)})" if name else key_text("addr", one.recipient)

    def _followed(self, one: RecipientOutcome) -> str:
        is_carried = one.state == "delivered" and self._passes_on and self._name(one) == self._passes_on
        more = ", kept for readers at other nodes" if is_carried else ""
        return f"  {self._whom(one)}  {one.state}{'' if one.reason is None else ', ' + str(_word(one.reason))}{more}"

    def _say(self, record: dict[str, Any], *lines: str) -> None:
        """Print the JSON record, or the lines for people; remember if the reader has gone or the disk is full."""
        try:
            if self._as_json:
                say_json(record)
            for line in lines if not self._as_json else ():
                say(line)
        except OSError as error:
            leave_output()
            self._unheard = unwritten(error)

    @contextmanager
    def hearing(self) -> Iterator[None]:
        """Count a refusal inside as one refused message."""
        try:
            yield
        except Refused as error:
            self.failed(error)

    @asynccontextmanager
    async def counting(self) -> AsyncIterator[None]:
        """Raise `Failure` with the number of messages in custody if the node goes away in the block, or a signal ends
        it."""
        try:
            yield
        except NoPrekey as error:
            raise Failure(Exit.TIMED_OUT, f"{error}{f'; {self._in_custody}' if self._taken else ''}") from None
        except NodeUnavailable as error:
            raise Failure(Exit.NO_NODE, f"{error}\n{self._in_custody_as_known}") from None
        except BaseException as error:
            if not is_interrupt(error):
                raise
            raise Interrupted(f"interrupted; {self._in_custody_as_known}") from None

    @property
    def _taken(self) -> int:
        return self._messages - self._refused

    @property
    def _in_custody(self) -> str:
        return f"{counted(self._taken, 'message')} {'is' if self._taken == 1 else 'are'} in custody"

    @property
    def _in_custody_as_known(self) -> str:
        return f"{self._in_custody}; whether the messages after them are is not known"

    def finish(self) -> None:
        """Raise the error with which the whole command ends, unless it succeeded."""
        if self._unheard:
            said = f"{self._unheard}: {self._in_custody}{self._rest}"
            raise Failure(Exit.FAILED, said)
        if self._failure is not None:
            raise self._failure
        if self._refused:
            for word in self._advised:
                if said := advice(word, is_kept_for_others=self._is_kept_for_others):
                    note(said)
            more = "; --json names each" if self._unnamed and not self._as_json else ""
            raise Failure(Exit.REFUSED, f"{self._some(self._refused)} refused{more}" if self._messages > 1 else "")
        if self._nobody:
            raise Failure(Exit.REFUSED, self._nobody)
        if self._turned_down:
            said = f"{self._some(self._turned_down)} refused by a recipient or on the way"
            if self._is_malformed:
                said += "; routers themselves take no messages, their apps and services do"
            elif self._last_turned_down is not None:
                said += (
                    f"; `router why {key_text('msg', self._last_turned_down)}` tells why, as far as it is known here"
                )
            raise Failure(Exit.REFUSED, said)
        if self._unfinished:
            said = f"{self._unfinished} of {self._messages} messages have not reached all their recipients yet"
            said = f"{said}; they are in custody and are still being delivered"
            if self._messages == 1:
                said = "the message has not reached all its recipients yet; it is in custody and still being delivered"
            raise Failure(Exit.TIMED_OUT, said)

    def _some(self, count: int) -> str:
        if self._messages == 1:
            return "the message was"
        return f"{count} of {self._messages} messages {'was' if count == 1 else 'were'}"


async def hear_uplinks(outcomes: Outcomes, uplinks: frozenset[PublicKey], tally: PublishCounts) -> None:
    """Wait at most `HEARD_S` for the uplinks' outcomes of a message, and report them."""

    def of_uplinks() -> list[RecipientOutcome]:
        return [one for one in outcomes.recipients if one.recipient in uplinks]

    if not of_uplinks():
        return
    with trio.move_on_after(HEARD_S):
        async for _ in outcomes:
            if all(one.state in TERMINAL for one in of_uplinks()):
                break
    is_read_here = len(of_uplinks()) < len(outcomes.recipients)
    tally.heard_of_uplinks(outcomes.id, of_uplinks(), is_read_here=is_read_here)


def _word(reason: int | None) -> str | None:
    if reason is not None and reason >= SERVICES_MIN:
        know_reasons(invocation().home)
    return None if reason is None else reason_word(reason)
