"""Telling others that an app's key was renewed: those that it has written to, and who writes to a former address."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import trio

from router.client.composer import Composer, Lifetime
from router.client.custody.outbox import Submission
from router.client.errors import ClientError, NodeUnavailable, Refused
from router.client.interrupts import uninterrupted
from router.client.publishing import Publishing
from router.client.sealing.rows import TOLD, PrekeyRow, PrekeyRows
from router.client.sealing.unicast_sealing import UnicastSealing
from router.core.wire.crypto import PublicKey
from router.core.wire.errors import RouterError
from router.core.wire.message import Unicast
from router.core.wire.prekey import Prekey
from router.core.wire.prekey_exchange import encode_answer
from router.core.wire.reasons import Reason
from router.core.wire.renewal import encode_renewal_notice

TOLD_MAX = 10_000
"""Most addresses remembered as told in one run; beyond that who writes to the former address is told again."""
AGAIN_S = 600.0
"""After this long it is tried again to tell those who could not be told, as the node or the disk failed."""
LIVES = tuple(Lifetime(60 * minutes, minutes) for minutes in (7 * 1440 - 10, 6 * 1440, 1440))
"""The lives of requests for prekeys, answers and news: as long as somebody may be away, as far ahead as messages may
expire where all clocks are within ten minutes; shorter ones where a router refuses that, as its clock is behind or its
limit lower."""


class _Unanswered:
    """The sink of a submission of which nothing is awaited: who is not told now is told when it writes again. `again`
    sends it with a shorter life."""

    def __init__(self, again: Callable[[], None] | None) -> None:
        self._again = again
        self._is_too_long = False

    def refused(self, reason: Reason, text: str) -> None:
        self._is_too_long = reason is Reason.EXPIRY_TOO_FAR

    def ended(self) -> None:
        if self._is_too_long and self._again is not None:
            self._again()

    def failed(self, error: ClientError) -> None: ...


@uninterrupted
class RenewalTelling:
    """Sends the statements of one app. `machine` returns what knows them and the correspondents, `prekey` the prekey of
    today; it raises `RouterError` if that cannot be written. `problem` gets sentences, `fault` errors of the state."""

    def __init__(
        self,
        composer: Composer,
        publishing: Publishing,
        machine: Callable[[], UnicastSealing],
        prekey: Callable[[], Prekey],
        rows: PrekeyRows,
        problem: Callable[[str], None],
        fault: Callable[[RouterError], None],
    ) -> None:
        self._composer = composer
        self._publishing = publishing
        self._machine = machine
        self._prekey = prekey
        self._rows = rows
        self._problem = problem
        self._fault = fault
        self._told: set[PublicKey] = set()
        self._is_due = trio.Event()
        self._is_due.set()

    def __repr__(self) -> str:
        return f"<telling of renewals: {len(self._told)} told>"

    def renewed(self) -> None:
        """Tell everybody anew: another key has taken the place of this app's."""
        self._told.clear()
        self._is_due.set()

    def heard(self, message: Unicast) -> None:
        """Tell who has written to a former address of this app, once. Raise `RouterError` if there is no prekey."""
        if not self._machine().is_former(message.destination) or message.source in self._told:
            return
        if len(self._told) >= TOLD_MAX:
            self._told.clear()
        bodies = self._bodies()
        self._told.add(message.source)
        for body in bodies:
            self._put(message.source, body)

    def _put(self, to: PublicKey, body: bytes, life: int = 0) -> None:
        composed = self._composer.unicast(to, body, LIVES[life])
        again = partial(self._put, to, body, life + 1) if life + 1 < len(LIVES) else None
        self._publishing.put(Submission(composed.frame, _Unanswered(again)))

    async def run(self) -> None:
        """Tell the correspondents at the beginning, and after each renewal; each address once for each key. Those that
        are not told for a fault of this node or disk are told later."""
        is_told_of = False
        while True:
            await self._is_due.wait()
            self._is_due = trio.Event()
            try:
                if self._rows.is_begun and self._machine().mine:
                    await self._tell_all()
                is_told_of = False
            except RouterError as error:
                if not isinstance(error, NodeUnavailable):
                    self._fault(error)
                elif not is_told_of:
                    self._problem(f"not all correspondents are told yet that the key was renewed: {error}")
                is_told_of = True
                with trio.move_on_after(AGAIN_S):
                    await self._is_due.wait()
                self._is_due.set()

    async def _tell_all(self) -> None:
        machine = self._machine()
        new = bytes(machine.mine[-1].new)
        told = dict(self._rows.under(TOLD))
        if gone := [PrekeyRow(TOLD, one, None) for one in told if PublicKey(one) not in machine.correspondents]:
            self._rows.gather(gone)
        refused = list[Refused]()
        for address in machine.correspondents.addresses:
            if told.get(address) != new and not machine.is_former(address):
                try:
                    await self._tell(address)
                except Refused as error:  # as it is gone, or its queue is full: the others are told all the same
                    refused.append(error)
                else:
                    self._rows.gather([PrekeyRow(TOLD, address, new)])
        if refused:
            whom = "1 correspondent" if len(refused) == 1 else f"{len(refused)} correspondents"
            said = f"{whom} could not be told that the key was renewed: {refused[0]}"
            self._problem(f"{said}; who writes to the old address is told then, the others at the next start")

    async def _tell(self, address: PublicKey) -> None:
        for body in self._bodies():
            await self._deliver(address, body)

    async def _deliver(self, address: PublicKey, body: bytes) -> None:
        for life in LIVES:
            try:
                await self._publishing.deliver(partial(self._composer.unicast, address, body, life), follow=False)
                return
            except Refused as error:
                if error.reason is not Reason.EXPIRY_TOO_FAR or life == LIVES[-1]:
                    raise

    def _bodies(self) -> list[bytes]:
        """Return what is sent to each: the statements, and the prekey of today, by which it can seal at once."""
        return [*map(encode_renewal_notice, self._machine().mine), encode_answer(self._prekey())]
