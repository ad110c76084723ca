"""The consumer's side of message submission, over all peers: which ids are asked for, and from whom each body comes
(CIP-137, "Message Submission mini-protocol"; docs/dmq.md).

Each peer announces ids in a window like that of `provider.py`. A body is asked of one peer at a time, and of another
one after `LATE_S` without it, or if what came was wrong. An id is acknowledged once its message is here, or this peer
has answered for it; so a window is held up by its oldest id at most until the next peer has been asked.

What the peers announce ends as one of: taken, known, refused for a reason, or withheld by all that announced it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from enum import Enum
from heapq import heappop, heappush
from math import inf

from msgspec import Struct, field

from router.core.link.machine import RemoteProtocolError
from router.core.wire.reasons import Reason

from ..mempool import Mempool
from ..messages.fault import Fault
from ..messages.signed_message import SignedMessage
from .fetch_counts import FetchCounts
from .provider import WINDOW_MAX

IDS_MAX = 33
"""Most ids in one request."""
IN_FLIGHT_BYTES_MAX = 92_400
IN_FLIGHT_BATCHES_MAX = 4
"""Most bytes of bodies, and requests for some, that one peer has still to answer."""
ASKED_MAX = 2
"""Most requests for ids that one peer has still to answer."""
LATE_S = 0.6
"""Seconds after which a body is asked of another peer as well."""
ACKNOWLEDGE_S = 0.1
"""How long after a request for ids the next one waits that would only acknowledge some of those that are open: the peer
answers it at once, with the few ids that have come meanwhile."""
SIZE_SLACK = 32
"""How many bytes a message may differ from the size that was announced."""
SIZE_MAX = 2_800
"""The longest message of a deployed node; one that is announced as longer is not asked for."""
REFUSED_MAX = 10_000
"""Most ids that are remembered as expired, so that nobody is asked for them again."""


class FetchError(Enum):
    """What a peer's reply may not be, by dmq-node's names."""

    IDS_NOT_REQUESTED = "SigIdsNotRequested"
    BODY_NOT_REQUESTED = "SigNotRequested"
    SIZE = "ProtocolErrorTxSizeError"


class PeerFault(Enum):
    """What follows for a peer from a message that was not taken."""

    DROP = "drop"
    COUNT = "drop and count"
    DISCONNECT = "disconnect"


_COUNTED = (Fault.TOO_FREQUENT, Fault.EXPIRY_TOO_FAR, Fault.TTL_TOO_LARGE, Fault.PACE_FULL, Fault.OLD_CERTIFICATE)
"""Rates, clocks, and a certificate that was renewed while older messages were under way: honest peers bring them."""
_DISCONNECTING = (
    Fault.WRONG_ID,
    Fault.AFTER_END,
    Fault.BEFORE_START,
    Fault.BAD_CERTIFICATE,
    Fault.BAD_SIGNATURE,
)
_OF_THE_ID = (Fault.EXPIRED, Fault.EXPIRY_TOO_FAR)
"""Faults that the id alone determines, where it is the digest of a payload with an expiry: any other message under the
id has them, too. The second one passes with time, so whoever announces the id later is asked for it."""


def peer_fault(fault: Fault) -> PeerFault:
    """Return what follows for the peer that brought a message with this fault."""
    if fault in _DISCONNECTING:
        return PeerFault.DISCONNECT
    return PeerFault.COUNT if fault in _COUNTED else PeerFault.DROP


class AskIds(Struct, frozen=True):
    """A request for ids to be made of a peer."""

    peer: str
    blocking: bool
    acknowledged: int
    most: int


class AskBodies(Struct, frozen=True):
    """A request for bodies to be made of a peer."""

    peer: str
    ids: tuple[bytes, ...]


class _Line(Struct):
    """What one peer has announced and was asked.

    `order`: the ids that need something of this peer, and those behind them; `acknowledged`: how many from before these
    are still to be acknowledged; `open`: those whose end is not known yet, with their sizes; `asked`: the requests for
    ids without an answer, as the most that each may bring; `asked_s`: when the last one was made; `batches`: those for
    bodies, each with when it was made."""

    order: deque[bytes] = field(default_factory=deque)
    open: dict[bytes, int] = field(default_factory=dict)
    acknowledged: int = 0
    asked: deque[int] = field(default_factory=deque)
    asked_s: float = -inf
    batches: deque[tuple[dict[bytes, int], float]] = field(default_factory=deque)
    may_have_more: bool = True
    is_ending: bool = False
    bytes_in_flight: int = 0
    announced: int = 0
    withheld: int = 0

    def let_go(self) -> None:
        """Drop the ids from the front that need nothing more of this peer; they are to be acknowledged."""
        while self.order and self.order[0] not in self.open:
            self.order.popleft()
            self.acknowledged += 1

    @property
    def may_pipeline(self) -> bool:
        """Whether more ids are asked for before those that were asked for have come: the last reply was full. Such a
        request does not block, so some ids must be left that are not acknowledged."""
        return self.may_have_more and bool(self.order) and len(self.order) + sum(self.asked) < WINDOW_MAX

    @property
    def is_urged(self) -> bool:
        """Whether more ids are to be asked for at once: all are answered for, or the peer is likely to have more."""
        return not self.order or (self.may_have_more and len(self.order) < WINDOW_MAX)


class _Wanted(Struct):
    """A message that is not here yet: the peers that have announced it, in order, and the one that was asked last.

    `announced_s`: when the first did; `is_judged`: it has come, and its verification is under way."""

    holders: list[str]
    announced_s: float = 0.0
    asked: str = ""
    asked_s: float = -inf
    is_judged: bool = False


class Fetching:
    """What is fetched from all peers that are pulled from. `unwanted_bytes`: of bodies that came after another peer had
    brought them; `made`: requests and replies since the start."""

    def __init__(self, mempool: Mempool) -> None:
        self._mempool = mempool
        self._lines: dict[str, _Line] = {}
        self._wanted: dict[bytes, _Wanted] = {}
        self._todo: dict[bytes, None] = {}  # to be asked for as soon as a peer has room
        self._late: list[tuple[float, bytes]] = []  # heap of when ids are to be asked of another peer
        self._acknowledge_s = inf
        self._refused: OrderedDict[bytes, None] = OrderedDict()
        self.unwanted_bytes = 0
        self.duplicates = 0
        self.made = FetchCounts()

    def __repr__(self) -> str:
        return f"<Fetching from {len(self._lines)} peers, {len(self._wanted)} messages wanted>"

    @property
    def due_s(self) -> float:
        """When a body is to be asked of another peer, or ids are to be acknowledged."""
        while self._late and not self._is_awaited(*self._late[0]):
            heappop(self._late)
        return min(self._late[0][0] if self._late else inf, self._acknowledge_s)

    def __contains__(self, peer: str) -> bool:
        return peer in self._lines

    def begin(self, peer: str) -> None:
        """Pull from a peer."""
        assert peer not in self._lines, "a peer is pulled from once"
        self._lines[peer] = _Line()

    def end(self, peer: str) -> None:
        """Pull from a peer no more: what it was asked for is asked of others."""
        line = self._lines.pop(peer, None)
        if line is not None:
            for own_id in line.open:
                self._release(own_id, peer)

    def stop(self, peer: str) -> None:
        """Ask a peer for nothing more; what it owes may still come."""
        if (line := self._lines.get(peer)) is not None:
            line.is_ending = True

    def resume(self, peer: str) -> bool:
        """Pull from a peer again that was to be asked for nothing more; return False if pulling has ended."""
        if (line := self._lines.get(peer)) is None:
            return False
        line.is_ending = False
        return True

    def is_finished(self, peer: str) -> bool:
        """Whether nothing more is asked of a peer, and it owes no answer, so that pulling may end in order."""
        line = self._lines.get(peer)
        return line is not None and line.is_ending and not line.asked and not line.batches

    def counts(self, peer: str) -> tuple[int, int]:
        """Return how many ids the peer has announced, and how many bodies it did not bring."""
        line = self._lines.get(peer) or _Line()
        return line.announced, line.withheld

    # -- replies -------------------------------------------------------------------------------------------

    def announced(self, peer: str, ids: Sequence[tuple[bytes, int]], now_s: float = 0.0) -> list[int]:
        """Take a reply with ids and sizes; return the numbers of those that are live here. Raise
        `RemoteProtocolError`."""
        line = self._lines[peer]
        most = line.asked.popleft() if line.asked else 0
        if len(ids) > most:
            raise _error(FetchError.IDS_NOT_REQUESTED, f"{len(ids)} ids, {most} requested")
        line.may_have_more = len(ids) == most
        line.announced += len(ids)
        self.made.id_replies += 1
        self.made.ids_received += len(ids)
        line.order += [own_id for own_id, _ in ids]
        served, known = self._mempool.served, list[int]()
        for own_id, size in ids:
            if (number := served(own_id)) is not None:
                known.append(number)
            elif own_id not in line.open and size <= SIZE_MAX and own_id not in self._refused:
                self._want(peer, line, own_id, size, now_s)
        return known

    def no_ids(self, peer: str) -> None:
        """Take the answer that there are no ids."""
        line = self._lines[peer]
        self.made.id_replies += 1
        line.may_have_more = False
        if line.asked:
            line.asked.popleft()

    def waited_s(self, peer: str, now_s: float) -> float:
        """Return how long the peer's next reply with bodies has been waited for; 0 if none is owed."""
        line = self._lines[peer]
        return now_s - line.batches[0][1] if line.batches else 0.0

    def delivered(self, peer: str, messages: Sequence[SignedMessage]) -> list[SignedMessage]:
        """Take a reply with bodies; return those that are to be judged. Raise `RemoteProtocolError`, and change nothing
        then."""
        line = self._lines[peer]
        batch = line.batches[0][0] if line.batches else {}
        _check_delivered(batch, messages)
        if line.batches:
            line.batches.popleft()
            line.bytes_in_flight -= sum(batch.values())
        self.made.body_replies += 1
        self.made.bodies_received += len(messages)
        self.made.bodies_omitted += len(batch) - len(messages)
        found = []
        for message in messages:
            wanted = self._wanted.get(message.id)
            if wanted is None or wanted.is_judged:
                self.unwanted_bytes += len(message.wire)
                self.duplicates += 1
            else:
                wanted.is_judged, wanted.asked = True, peer
                self._todo.pop(message.id, None)
                found.append(message)
        brought = {message.id for message in messages}
        for own_id in [one for one in batch if one not in brought]:
            line.withheld += 1
            line.open.pop(own_id, None)
            self._release(own_id, peer)
        return found

    def taken(self, own_id: bytes) -> tuple[Sequence[str], float]:
        """Record that a message is live here, whoever brought it; return the peers that have announced it, the first
        one first, and when that one did."""
        wanted = self._settle(own_id)
        return (wanted.holders, wanted.announced_s) if wanted is not None else ((), inf)

    def refused(self, own_id: bytes, peer: str, fault: Fault, *, is_named: bool = True) -> None:
        """Record that what a peer brought was not taken: others are asked, unless the id itself is at fault.
        `is_named`: the id is the digest of what is at fault, so that nobody brings anything else under it."""
        if fault is Fault.EXPIRED and is_named:
            self._refused[own_id] = None
            if len(self._refused) > REFUSED_MAX:
                self._refused.popitem(last=False)
        if fault is Fault.DUPLICATE or (fault in _OF_THE_ID and is_named):
            self._settle(own_id)
            return
        if fault is not Fault.DISK_FULL and (line := self._lines.get(peer)):
            line.open.pop(own_id, None)
        if (wanted := self._wanted.get(own_id)) is None:
            return
        wanted.is_judged = False
        if fault is not Fault.DISK_FULL and peer in wanted.holders:
            wanted.holders.remove(peer)
        self._ask_again(own_id, wanted)

    # -- requests ------------------------------------------------------------------------------------------

    def requests(self, now_s: float) -> list[AskIds | AskBodies]:
        """Return the requests to be made now."""
        self._look_at_late(now_s)
        bodies: dict[str, list[bytes]] = {}
        for own_id in list(self._todo):
            if (peer := self._supplier(own_id)) is not None:
                self._ask(own_id, peer, bodies, now_s)
        asks: list[AskIds | AskBodies] = []
        self._acknowledge_s = inf
        for peer, line in self._lines.items():
            while (ask := self._ids(peer, line, now_s)) is not None:
                asks.append(ask)
        for peer, ids in bodies.items():
            line = self._lines[peer]
            line.batches.append(({own_id: line.open[own_id] for own_id in ids}, now_s))
            asks.append(AskBodies(peer, tuple(ids)))
            self.made.body_requests += 1
            self.made.bodies_requested += len(ids)
        return asks

    def _ids(self, peer: str, line: _Line, now_s: float) -> AskIds | None:
        """Return the request for ids that is due: one that blocks if nothing is left to be answered for."""
        if line.is_ending or len(line.asked) == ASKED_MAX:
            return None
        line.let_go()
        if line.asked and not line.may_pipeline:
            return None
        if not line.asked and not line.is_urged:
            if not line.acknowledged:
                return None
            if now_s < (due_s := line.asked_s + ACKNOWLEDGE_S):
                self._acknowledge_s = min(self._acknowledge_s, due_s)
                return None
        left, acknowledged = len(line.order) + sum(line.asked), line.acknowledged
        most = min(IDS_MAX, WINDOW_MAX - left)
        line.asked.append(most)
        line.asked_s, line.acknowledged = now_s, 0
        self.made.ids_requested += most
        if left:
            self.made.pipelined += 1
        else:
            self.made.blocking += 1
        return AskIds(peer, not left, acknowledged, most)

    def _ask(self, own_id: bytes, peer: str, bodies: dict[str, list[bytes]], now_s: float) -> None:
        line, wanted = self._lines[peer], self._wanted[own_id]
        del self._todo[own_id]
        wanted.asked, wanted.asked_s = peer, now_s
        line.bytes_in_flight += line.open[own_id]
        bodies.setdefault(peer, []).append(own_id)
        heappush(self._late, (now_s + LATE_S, own_id))

    def _supplier(self, own_id: bytes) -> str | None:
        """Return the peer to ask for a message: the first to announce it that has room, and was not asked last."""
        wanted = self._wanted[own_id]
        for peer in wanted.holders:
            line = self._lines[peer]
            has_room = (
                not line.is_ending
                and line.bytes_in_flight + line.open[own_id] <= IN_FLIGHT_BYTES_MAX
                and len(line.batches) < IN_FLIGHT_BATCHES_MAX
            )
            if has_room and not any(own_id in batch for batch, _ in line.batches):
                return peer
        return None

    def _look_at_late(self, now_s: float) -> None:
        """Let each body that has not come in time be asked of another peer."""
        while self._late and self._late[0][0] <= now_s:
            late_s, own_id = heappop(self._late)
            if self._is_awaited(late_s, own_id):
                self._todo[own_id] = None

    def _is_awaited(self, late_s: float, own_id: bytes) -> bool:
        """Whether a body is still missing that was asked for so long before this time, and of nobody since."""
        wanted = self._wanted.get(own_id)
        return wanted is not None and not wanted.is_judged and late_s == wanted.asked_s + LATE_S

    # -- what is wanted ------------------------------------------------------------------------------------

    def _want(self, peer: str, line: _Line, own_id: bytes, size: int, now_s: float) -> None:
        line.open[own_id] = size
        wanted = self._wanted.get(own_id)
        if wanted is None:
            self._wanted[own_id] = _Wanted([peer], now_s)
            self._todo[own_id] = None
        else:
            wanted.holders.append(peer)

    def _release(self, own_id: bytes, peer: str) -> None:
        """Expect a message no more from this peer: it is asked of another one, or forgotten if there is none."""
        wanted = self._wanted.get(own_id)
        if wanted is None or peer not in wanted.holders:
            return
        wanted.holders.remove(peer)
        if not wanted.is_judged:
            self._ask_again(own_id, wanted)

    def _ask_again(self, own_id: bytes, wanted: _Wanted) -> None:
        """Ask another peer for a message; forget it if there is none."""
        if wanted.holders:
            self._todo[own_id] = None
        else:
            del self._wanted[own_id]
            self._todo.pop(own_id, None)

    def _settle(self, own_id: bytes) -> _Wanted | None:
        """Want a message no more; return what was known of it."""
        wanted = self._wanted.pop(own_id, None)
        self._todo.pop(own_id, None)
        for peer in wanted.holders if wanted is not None else ():
            self._lines[peer].open.pop(own_id, None)
        return wanted


def _check_delivered(batch: Mapping[bytes, int], messages: Sequence[SignedMessage]) -> None:
    """Raise `RemoteProtocolError` for a body that was not asked for, or has another size than was announced."""
    seen = set[bytes]()
    for message in messages:
        size = batch.get(message.id)
        if size is None or message.id in seen:
            raise _error(FetchError.BODY_NOT_REQUESTED, f"{message.id.hex()[:16]}…")
        if abs(size - len(message.wire)) > SIZE_SLACK:
            raise _error(FetchError.SIZE, f"{size} bytes announced, {len(message.wire)} received")
        seen.add(message.id)


def _error(fault: FetchError, text: str) -> RemoteProtocolError:
    return RemoteProtocolError(Reason.MALFORMED, f"{fault.value}: {text}")
