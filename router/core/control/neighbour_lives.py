"""The lives of chosen neighbours: which of a neighbour's restores was the latest, over restarts of this router.

A neighbour that was restored, or kept of several copies, stands in a later life than its old home. Where the old home
runs again, as after a move, while the restored node is not connected here, it is shown the claim of the later life by
which it knows that it is a copy (`node_copies.py`), and gets no link. Each claim is a row of the store, "v" in
cddl/store.cddl.
"""

from __future__ import annotations

from collections.abc import Iterable

import cbor2

from router.core.neighbours.directory import Standing
from router.core.routing.admission import OUTLIVED
from router.core.routing.effects import Close, SendItem
from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.wire.crypto import PublicKey, Signature
from router.core.wire.link_items import Hello, OtherRun
from router.core.wire.now import Now
from router.core.wire.reasons import Reason
from router.core.wire.run_claim import RunClaim, RunPlace

from .part import Part

LIVES = b"v"
"""The kind of the rows: the first claim of a neighbour's latest life that was heard of."""


class NeighbourLives(Part):
    """Remembers the latest life of each client and peer, and turns away nodes of an earlier one."""

    def __init__(self, kernel: Kernel) -> None:
        self._directory = kernel.directory
        self._pending = kernel.pending
        self._latest: dict[bytes, RunClaim] = {}  # by the neighbour's key
        self._revision = -1  # that of the directory when it was last compared

    def __repr__(self) -> str:
        return f"<lives of {len(self._latest)} neighbours>"

    def began(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Load the rows of the store."""
        self._latest = {key[1:]: _from_row(value) for key, value in rows if key[:1] == LIVES}

    def tick(self, now: Now) -> None:
        """Forget routers that are no chosen neighbours any more."""
        if self._revision != self._directory.revision:
            self._revision = self._directory.revision
            for key in [one for one in self._latest if not self._is_chosen(one)]:
                del self._latest[key]
                self._pending.changes.book[LIVES + key] = None

    def ends_link(self, number: int, key: bytes, hello: Hello) -> bool:
        """Whether the link of a router ends as soon as it is there: a later life of its key was connected before."""
        known = self._latest.get(key)
        if known is None or hello.run is None or hello.run.life >= known.run.life or not self._is_chosen(key):
            return False
        if hello.claim is not None:
            self._pending.effects.append(SendItem(number, OtherRun(known)))
        self._pending.effects.append(Close(number, Reason.REPLACED, OUTLIVED))
        return True

    def link_up(self, link: Link, now: Now) -> None:
        """Remember the life of a neighbour if it is later than the known one."""
        claim = link.claim
        if claim is None or claim.run.life == 0 or not self._is_chosen(link.key):
            return
        known = self._latest.get(link.key)
        is_news = known is None or claim.run.life > known.run.life
        if is_news and claim.is_by(PublicKey(link.key)):
            self._latest[link.key] = claim
            self._pending.changes.book[LIVES + link.key] = cbor2.dumps([*claim.run, claim.signature])

    def _is_chosen(self, key: bytes) -> bool:
        return self._directory.standing(key, owner=False) in (Standing.CLIENT, Standing.PEER)


def _from_row(value: bytes) -> RunClaim:
    life, start_ms, tag, signature = cbor2.loads(value)
    return RunClaim(RunPlace(life, start_ms, tag), Signature(signature))
