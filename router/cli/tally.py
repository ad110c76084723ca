"""What became of each message that a command handed in: printed at once, and summed up in the exit code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from router.cli.exits import Exit, Failure
from router.cli.output import note, say, say_json
from router.client.errors import ClientError, Refused
from router.core.crypto import MessageId
from router.core.events import reason_word
from router.core.link import RecipientOutcome
from router.core.text import key_text


class Tally:
    """Ids and outcomes go to standard output, refusals to standard error too."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._messages = self._refused = self._unfinished = 0
        self._failure: ClientError | None = None

    def __repr__(self) -> str:
        return f"<{self._messages} messages, {self._refused} refused>"

    def taken(self, id: MessageId) -> None:
        """The router has it in custody."""
        self._messages += 1
        if self._as_json:
            say_json({"id": id, "custody": True})
        else:
            say(key_text("msg", id))

    def followed(self, id: MessageId, recipients: Sequence[RecipientOutcome], complete: bool) -> None:
        """It is in custody, and this is known of its recipients."""
        self._messages += 1
        self._unfinished += not complete
        rows = [{"recipient": one.recipient, "state": one.state, "reason": _word(one.reason)} for one in recipients]
        if self._as_json:
            say_json({"id": id, "custody": True, "recipients": rows})
            return
        say(key_text("msg", id))
        for one in recipients:
            whom = f"{one.recipient} recipients" if isinstance(one.recipient, int) else key_text("addr", one.recipient)
            say(f"  {whom}  {one.state}{'' if one.reason is None else ', ' + str(_word(one.reason))}")

    def failed(self, error: ClientError) -> None:
        """It was refused, or the node went away for good before it took it."""
        if not isinstance(error, Refused):
            self._failure = self._failure or error
            return
        self._messages += 1
        self._refused += 1
        note(str(error))
        if self._as_json:
            say_json({"id": error.message, "custody": False, "reason": error.reason.word})

    @contextmanager
    def hearing(self) -> Iterator[None]:
        """A refusal inside counts as that of one message."""
        try:
            yield
        except Refused as error:
            self.failed(error)

    def finish(self) -> None:
        """Raises what the whole command ends with, if that is not success."""
        if self._failure is not None:
            raise self._failure
        if self._refused:
            many = self._messages > 1
            raise Failure(Exit.REFUSED, f"{self._refused} of {self._messages} messages were refused" if many else "")
        if self._unfinished:
            said = f"{self._unfinished} of {self._messages} messages have not reached all their recipients yet"
            raise Failure(Exit.TIMED_OUT, f"{said}; they are in custody and go on")


def _word(reason: int | None) -> str | None:
    return None if reason is None else reason_word(reason)
