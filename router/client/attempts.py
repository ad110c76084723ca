"""Count how often an app has failed on a message (its block was left by an error), in its state, which outlives the
process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from router.client.custody.arrivals import Arrival
from router.client.errors import NodeUnavailable
from router.client.old_places import attempts_row
from router.core.wire.crypto import MessageId
from router.core.wire.reasons import Reason
from router.core.wire.text import key_text, short
from router.disk.state.app_rows import AppBatch, AppRows
from router.disk.state.app_state import AppState
from router.disk.state.environment import StateError

MESSAGES_MAX = 1000
"""Number of messages whose attempts are remembered; the oldest are forgotten first."""
FAILED = "failed"
SAID_MAX = 400

Refuse = Callable[[Arrival, Reason, str], None]


class KeptAttempts:
    """The failure counts of one app. `most`: attempts before a message is refused, 0 for no limit. With a state in
    memory nothing is counted, because a throwaway key never gets a message twice. `problem` gets sentences for the
    app's owner."""

    def __init__(self, most: int, state: AppState, problem: Callable[[str], None]) -> None:
        self._most = most
        self._state = state
        self._problem = problem

    def __repr__(self) -> str:
        return f"<attempts: at most {self._most or 'any number'}, kept in {self._state!r}>"

    def fail(self, error: BaseException | None, hands: Sequence[Sequence[Arrival]], refuse: Refuse) -> None:
        """Count the error against each message in hand; refuse those whose attempts are used up."""
        held = [one for hand in hands for one in hand]
        if not self._most or self._state.path is None or not held or not _is_the_app_s(error):
            return
        try:
            counts = self._count([one.id for one in held])
        except StateError as problem:
            self._problem(f"attempts cannot be counted: {problem}")
            return
        for one in held:
            if counts[one.id] >= self._most:
                which = short(key_text("msg", one.id))
                said = f"this app failed {counts[one.id]} times on the message {which}, the last time with {error!r}"
                self._problem(f"{said[:SAID_MAX]}; it is refused, and the next one comes")
                refuse(one, Reason.PEER_REFUSED, f"the app failed on it {counts[one.id]} times")

    def _count(self, ids: Sequence[MessageId]) -> dict[MessageId, int]:
        counts: dict[MessageId, int] = {}

        def decide(rows: AppRows) -> AppBatch:
            batch, known = AppBatch(), dict(rows.rows(FAILED))
            order = 1 + max((int.from_bytes(row[:8], "big") for row in known.values()), default=0)
            for at, one in enumerate(ids, order):
                counts[one] = 1 + int.from_bytes(known.pop(one, b"")[8:], "big")
                batch.put(FAILED, one, attempts_row(at, counts[one]))
            for gone in sorted(known, key=lambda one: known[one])[: max(0, len(known) + len(ids) - MESSAGES_MAX)]:
                batch.remove(FAILED, gone)
            return batch

        self._state.change(decide)
        return counts


def _is_the_app_s(error: BaseException | None) -> bool:
    """Whether the app itself failed, rather than being cancelled or losing its node."""
    if isinstance(error, ExceptionGroup):
        return error.split(NodeUnavailable)[1] is not None
    return isinstance(error, Exception) and not isinstance(error, NodeUnavailable)
