"""Copies: other nodes that run with this node's key, and copies of a neighbour's home.

The hello claims a router's run, signed; each run of a home is later than those before it (`core/wire/run_claim.py`).
A neighbour to which two runs of one key connect shows the later claim to the earlier run. It judges nothing, since only
a node that still runs can read that:

- A node that is shown a later claim of its own key than its own was copied, and is the older one. It is *barred*: it
  accepts and delivers nothing and has no links, now and after each restart, until its operator keeps it.
- It says so, signed. By this the neighbour knows that both ran at once, and shows that to the later run, which goes on.

The operator keeps one of the two (`router copy keep`): it begins a new life, later than all runs of the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import cbor2
from msgspec import Struct

from router.core.log.life import Restored, next_life
from router.core.routing.admission import Admission
from router.core.routing.effects import BeginAnew, Close, SendItem
from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.wire.lifetime import UINT32_MAX
from router.core.wire.link_items import Hello, StoppedRun
from router.core.wire.now import Now
from router.core.wire.reasons import Reason
from router.core.wire.run_claim import LIFE_MAX, RunClaim, RunPlace, RunStopped, claim_run, stop_run

from .neighbour_lives import NeighbourLives
from .part import Orders, Part

COPY, RUNS = b"c", b"x"
"""The kinds of rows: the other run that was heard of, and the latest run of this home."""
NAMED_MAX = 1_024
"""How many neighbours with a copy are remembered; beyond it the one named first is forgotten."""
START_S_MAX = UINT32_MAX
"""The latest start in Unix seconds that is told; a clock that is further ahead is told as this."""
KEEP = "keep"
STOPS = "a node with the same key was started later and runs; this one has stopped"
BARRED = (
    "another node with this node's key was started on {}, so this home was copied: this node accepts and delivers "
    "nothing and keeps what waits; `router copy keep` makes it the one that stays; if the other one is to stay, stop "
    "this one for good"
)
SEEN = (
    "a copy of this home, started on {}, ran beside this node, and has stopped for that reason; remove it, and run "
    "`router copy keep` here: it begins a new life, in which none of the copy's numbers occurs again"
)
NEIGHBOUR = (
    "two nodes ran with its key at once, and one of them has stopped for that reason; its operator keeps one with "
    "`router copy keep` there and removes the other"
)

LAST_LIFE = (
    "no life is later than that of the other node, which no clock shows: whoever has this node's key made it up; make "
    "a new node, and have it added in the place of this one"
)
FORMER = "an earlier copy of its home still ran, and has stopped; its operator removes it"


class FoundCopy(Struct, frozen=True):
    """The latest run of another node with this node's key, heard of at the Unix second `heard_s`. `is_barred`: this
    node's own run was earlier, so it has stopped."""

    run: RunPlace
    heard_s: int
    is_barred: bool

    @property
    def problem(self) -> str:
        """Return a sentence for the operator, with the remedy."""
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=min(self.run.start_ms // 1000, START_S_MAX))
        return (BARRED if self.is_barred else SEEN).format(f"{at:%Y-%m-%d %H:%M:%S} UTC")

    def row(self) -> bytes:
        return cbor2.dumps([*self.run, self.heard_s, self.is_barred])

    @classmethod
    def from_row(cls, value: bytes) -> FoundCopy:
        life, start_ms, tag, heard_s, is_barred = cbor2.loads(value)
        return cls(RunPlace(life, start_ms, tag), heard_s, is_barred)


class NodeCopies(Part):
    """Owns the runs of this home, and what is known of other nodes with its key or a neighbour's."""

    def __init__(self, kernel: Kernel, admission: Admission, life: int) -> None:
        self._kernel = kernel
        self._links = kernel.links
        self._pending = kernel.pending
        self._admission = admission
        self._life = life
        self._last = RunPlace(0, 0, b"")  # the latest run of this home
        self.found: FoundCopy | None = None
        self._named: dict[bytes, RunStopped] = {}  # by a neighbour's key
        self._lives = NeighbourLives(kernel)

    def __repr__(self) -> str:
        return f"<copies: {'barred' if self.is_barred else 'not barred'}, {len(self._named)} neighbours have one>"

    @property
    def is_barred(self) -> bool:
        """Whether this node was copied and is the older one."""
        return self.found is not None and self.found.is_barred

    @property
    def problem(self) -> str:
        """Return a sentence on the copy of this home that was heard of, "" if none was."""
        return self.found.problem if self.found is not None else ""

    # -- this node ---------------------------------------------------------------------------------------------

    def began(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Load the rows of the store. A copy that was heard of before this life began concerns it no more."""
        rows = list(rows)
        self._lives.began(rows)
        found = {key[:1]: value for key, value in rows if key[:1] in (COPY, RUNS)}
        if COPY in found:
            self.found = FoundCopy.from_row(found[COPY])
            if self.found.run.life < self._life:
                self.found = None
                self._pending.changes.book[COPY] = None
        if RUNS in found:
            self._last = RunPlace(*cbor2.loads(found[RUNS]))

    def begin(self, tag: bytes, now: Now) -> RunClaim | None:
        """Begin a run, which is later than all earlier ones of this home also where the clock was set back; return its
        claim, None if this node is barred: nobody may see a run of it. `tag`: eight random bytes."""
        if self.is_barred:
            return None
        before_ms = self._last.start_ms if self._last.life == self._life else 0
        self._last = RunPlace(self._life, max(now.shown_ns // 1_000_000, before_ms + 1), tag)
        self._pending.changes.book[RUNS] = cbor2.dumps([*self._last])
        return claim_run(self._kernel.key, self._last)

    def ends_link(self, number: int, key: bytes, hello: Hello) -> bool:
        """Whether the link of another router ends as soon as it is there: a barred node has none, and a neighbour of
        an earlier life than the known one gets none."""
        if self.is_barred:
            self._pending.effects.append(Close(number, Reason.COPIED, STOPS))
        return self.is_barred or self._lives.ends_link(number, key, hello)

    def tick(self, now: Now) -> None:
        """Forget the lives of neighbours that were removed."""
        self._lives.tick(now)

    def shown(self, claim: RunClaim, now: Now) -> bool:
        """Judge the claim of another run of this node's key; return whether it is news. The caller has verified it."""
        if claim.run <= self._last or (self.is_barred and self.found and claim.run <= self.found.run):
            return False
        was_barred = self.is_barred
        self._find(FoundCopy(claim.run, now.wall_s, True))
        if not was_barred:
            self._stop(claim.run, now)
        return True

    def shown_stopped(self, said: RunStopped, now: Now) -> bool:
        """Judge the statement of another run of this node's key that it has stopped; return whether it is news. The
        caller has verified it. One of an earlier life is none: this node was restored or kept since."""
        is_known = self.found is not None and said.run <= self.found.run
        if is_known or said.run >= self._last or said.run.life < self._life:
            return False
        self._find(FoundCopy(said.run, now.wall_s, False))
        return True

    def _find(self, found: FoundCopy) -> None:
        self.found = found
        self._pending.changes.book[COPY] = found.row()

    def _stop(self, later: RunPlace, now: Now) -> None:
        """Close all links but those of this machine, and have the node start again without any."""
        said = StoppedRun(stop_run(self._kernel.key, self._last, later))
        for link in [*self._links]:
            if not link.owner and link.key not in self._kernel.directory.services:
                if link.claim is not None:
                    self._pending.effects.append(SendItem(link.id, said))
                self._admission.close(link, Reason.COPIED, STOPS, Reason.COPIED.word, now)
        self._pending.effects.append(BeginAnew())

    # -- neighbours ----------------------------------------------------------------------------------------------

    def neighbour_stopped(self, key: bytes, said: RunStopped) -> str:
        """Take a neighbour's statement that a run of its key has stopped, and show it to the later run if that is
        connected; return a warning, "" if it is no news. The caller has verified it. Strangers' are not remembered."""
        known = self._named.get(key)
        if not self._kernel.directory.is_known(key) or (known is not None and known.run >= said.run):
            return ""
        self._named.pop(key, None)
        self._named[key] = said
        while len(self._named) > NAMED_MAX:
            del self._named[next(iter(self._named))]
        if (link := self._links.to(key)) is not None:
            self._show(link, said)
        return "" if known is not None else self.problem_of(key) or FORMER

    def link_up(self, link: Link, now: Now) -> None:
        """Show a neighbour that a run of its key has stopped; where its operator has kept one since, it is over."""
        self._lives.link_up(link, now)
        said = self._named.get(link.key)
        if said is None or link.claim is None:
            return
        if link.claim.run.life > said.later.life:
            del self._named[link.key]
        else:
            self._show(link, said)

    def _show(self, link: Link, said: RunStopped) -> None:
        if link.claim is not None and said.run < link.claim.run:
            self._pending.effects.append(SendItem(link.id, StoppedRun(said)))

    def problem_of(self, key: bytes) -> str:
        """Return a sentence on a neighbour whose home was copied, "" for all others, and where its operator has decided
        which one stays: then the later run is of a later life."""
        said = self._named.get(key)
        return NEIGHBOUR if said is not None and said.run.life == said.later.life else ""

    # -- the operator --------------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any] | None:
        """Return what operators are told of a copy of this home; None if none was heard of."""
        found = self.found
        if found is None:
            return None
        said = {"barred": found.is_barred, "start_ms": found.run.start_ms, "heard_s": found.heard_s}
        return {**said, "problem": found.problem}

    def _order(self, argument: str, now: Now) -> dict[str, Any]:
        """Tell of a copy; with `keep`, begin a new life, by which this node is the one that stays."""
        if argument not in ("", KEEP):
            raise ValueError(f"`copy` takes no request but {KEEP!r}, not {argument[:40]!r}")
        life = self._life
        if argument == KEEP:
            if self.found is None:
                raise ValueError("no other node with this node's key was heard of, so there is nothing to decide")
            life = next_life(max(life, self.found.run.life), now.wall_ns // 1_000_000)
            if now.wall_s > UINT32_MAX:
                raise ValueError("the clock of this machine is beyond the year 2105, and no such life is begun: set it")
            if life > LIFE_MAX:
                raise ValueError(LAST_LIFE)
            self._pending.effects.append(BeginAnew(Restored(life, now.wall_s, now.wall_s)))
        return {"life": life, "copy": self.facts()}

    ORDERS: ClassVar[Orders] = {"copy": _order}
