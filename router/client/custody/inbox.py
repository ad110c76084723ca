"""The messages that the node has handed over: which loop gets each, and up to which number all are settled (pure).

Messages wait here until a loop asks for them; nothing is parsed before that. The window that the app announced bounds
the waiting messages: the node sends no more before some are settled. Messages that no loop reads go back to the node's
queue before they hold up the rest. If a message comes a second time after a lost connection, the app sees only one copy
as long as its process lives: the second replaces the first, and settling the first settles it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence

from router.client.custody import unread
from router.client.custody.arrivals import UNICASTS, Arrival, Read, Span, Waiting, arrivals_of
from router.client.custody.aside import Aside, set_aside
from router.client.custody.recent import RecentArrivals, Verdict
from router.client.custody.unread import Unread
from router.client.errors import ClientError
from router.core.link.custody import CONTROL_SLACK_MESSAGES
from router.core.link.session import MessageRun
from router.core.routing.intake import Refusal
from router.core.wire.codec import Malformed
from router.core.wire.control import is_report
from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.message import UNICAST, read_header
from router.core.wire.reasons import Reason
from router.core.wire.text import key_text, short

_SOURCE_FROM, _SOURCE_TO = 50, 96  # where the source of a unicast lies, whatever its expiry


class Prefix:
    """The number of messages from the first on that are done without a gap."""

    __slots__ = ("_later", "n")

    def __init__(self) -> None:
        self.n = 0
        self._later: dict[int, int] = {}

    def add(self, first: int, last: int) -> None:
        """Mark messages first..last as done; each must be named only once."""
        if first != self.n + 1:
            self._later[first] = last
            return
        while last:
            self.n = last
            last = self._later.pop(last + 1, 0)


class Inbox:
    """The inbox of one app. `durable`: the key is kept; `known` looks ids up in the app's journal; `problem` gets
    sentences about messages that cannot be given to the app; `wake_loops` is called when loops may ask again,
    `wake_link` when there is something to send to the node; `aside` gets what is for no loop."""

    def __init__(
        self,
        window_messages: int,
        window_bytes: int,
        *,
        durable: bool,
        known: Callable[[Sequence[MessageId]], Collection[MessageId]],
        problem: Callable[[str], None],
        wake_loops: Callable[[], object],
        wake_link: Callable[[], None],
        aside: Aside | None = None,
    ) -> None:
        self._durable = durable
        self._known = known
        self._problem = problem
        self._wake_loops = wake_loops
        self._wake_link = wake_link
        self._aside = aside
        self._window_messages = window_messages
        self._crowd = max(1, window_messages // 2), max(1, window_bytes // 2)
        self._asked: set[bytes | None] = set()
        self._reported: set[bytes] = set()
        recent_max = 3 * (window_messages + CONTROL_SLACK_MESSAGES)
        self._unread = Unread(recent_max)
        self._recent = RecentArrivals(recent_max)
        self._reads: deque[Read] = deque()
        self._waiting = Waiting()
        self._link = 0
        self._router: PublicKey | None = None
        self._prefix = Prefix()
        self._refusals: list[Refusal] = []
        self._again = 0
        self.received = 0
        """The number of messages that the present connection has brought."""
        self._sizes: deque[tuple[int, int]] = deque()  # by read: the number of its last message, its bytes

    def __repr__(self) -> str:
        waiting = len(self._waiting) + sum(len(read.spans) for read in self._reads)
        settled = f"{self.settled} of {self.received} settled on connection {self._link}"
        return f"<inbox: {waiting} messages wait, {settled}>"

    @property
    def settled(self) -> int:
        """Return how many of the present connection's messages may be settled."""
        return self._prefix.n

    def take_refusals(self) -> list[Refusal]:
        """Return the refusals that the node must get before these messages are settled, each once per connection, and
        forget them."""
        refusals, self._refusals = self._refusals, []
        return refusals

    # -- the link's side -----------------------------------------------------------------------------------

    def begin(self, router: PublicKey) -> None:
        """Start a new connection, on which messages are counted from 1 again.

        Waiting messages stay for the loops, except those two connections old, so that a link that is lost repeatedly
        does not fill memory. The node redelivers these to a key that is kept; with a throwaway key they are lost, and
        reported.
        """
        if self._waiting:
            self._parse()  # a waiting message with a copy is not stale
        stale = [one for one in self._waiting if one.link < self._link]
        lost = len(stale)
        for one in stale:
            self._waiting.remove(one)
            self._recent.forget(one.id)
        while self._reads and self._reads[0].link < self._link:
            lost += len(self._reads.popleft().spans)
        if lost and not self._durable:
            self._problem(f"{lost} messages that the app had not asked for yet are lost with their connection")
        self._link += 1
        self._router = router
        self._prefix = Prefix()
        self._refusals = []
        self._unread.clear()
        self._again = self.received = 0
        self._sizes.clear()

    def redelivered(self, n: int) -> None:
        """Note that the next `n` messages may have been handed over before."""
        self._again = n

    def take_in(self, messages: MessageRun, at_s: float) -> list[bytes]:
        """Take the messages of one read; return the router's own unicasts, and reports of routers further on, which
        count as done."""
        first_k, data, spans = messages
        self.received += len(spans)
        self._sizes.append((self.received, spans[-1][2] - spans[0][0]))
        self._forget_settled()
        holes = [
            at
            for at, (_, start, end) in enumerate(spans)
            if data[start + 1] == UNICAST and (self._is_of_router(data, start, end) or is_report(data, start, end))
        ]
        runs, kept = _without(holes, first_k, spans) if holes else ([(first_k, self.received)], spans)
        for hole in holes:
            self._prefix.add(first_k + hole, first_k + hole)
        if kept:
            again = min(self._again, len(kept))
            self._again -= again
            read = Read(data, kept, runs, at_s, again, self._link)
            self._reads.append(read if self._aside is None else set_aside(read, self._aside, self._end_aside))
            if again and self._recent:
                self._has_parsed()  # copies that the app has already handled: no loop may ever ask for them
            self._wake_loops()
        return [data[spans[hole][1] : spans[hole][2]] for hole in holes]

    def _has_parsed(self) -> bool:
        """Parse all reads outside of a loop; report the error and return False if that is not possible."""
        try:
            self._parse()
        except ClientError as error:
            self._problem(error.text)  # raised again for the next loop that asks
            return False
        return True

    def _is_of_router(self, data: bytes, start: int, end: int) -> bool:
        """Whether this unicast's source is the router."""
        router = self._router
        if router is None or data.find(router, start + _SOURCE_FROM, min(end, start + _SOURCE_TO)) < 0:
            return False
        try:
            return read_header(data, start, end).signer == router
        except Malformed:
            return False

    # -- the loops' side -----------------------------------------------------------------------------------

    def take_reads(self) -> list[Read]:
        """Return all messages that no loop has asked for, by whole reads, unparsed; `reads_done` settles them. Copies
        among them are not detected: this is for a link that is not dialled again."""
        reads = list(self._reads)
        self._reads.clear()
        return reads

    def reads_done(self, reads: Iterable[Read]) -> None:
        """Mark all messages of these reads as done, once."""
        for read in reads:
            for first, last in read.runs:
                self._end(read.link, first, last)

    def take(self, address: bytes | None) -> Arrival | None:
        """Return the next message to an address, `UNICASTS`, or any address (None), in the order of arrival."""
        self._asked.add(address)
        found = self._waiting.first(address)
        if found is None and self._reads:
            self._parse()
            found = self._waiting.first(address)
        if found is not None:
            self._waiting.remove(found)
        elif self._is_crowded and None not in self._asked:
            self._leave_unread()
        return found

    def pick(self, address: bytes, id: MessageId) -> Arrival | None:
        """Return a waiting message to this address, out of turn; None if it is not here."""
        if self._reads:
            self._parse()
        found = self._waiting.get(id)
        if found is None or found.address != address:
            return None
        self._waiting.remove(found)
        return found

    def adopt(self, one: Arrival) -> bool:
        """Take a message that came as an answer and not through the window; return whether it is new here. A copy of it
        in the app's queue is settled with it."""
        if one.id in self._recent:
            return False
        self._recent.add(one)
        return True

    @property
    def is_full(self) -> bool:
        """Whether the node can hand over no message, or none of half the window's bytes, before one is settled."""
        if self.received - self.settled >= self._window_messages:
            return True
        self._forget_settled()
        return sum(of_read for _, of_read in self._sizes) >= self._crowd[1]

    @property
    def _is_crowded(self) -> bool:
        """Whether half the window is unsettled, even if only because of one message that no loop asks for."""
        messages, size = self._crowd
        if self.received - self.settled >= messages:
            return True
        self._forget_settled()
        return sum(of_read for _, of_read in self._sizes) >= size

    def _forget_settled(self) -> None:
        """Forget the sizes of the reads that are settled, as the node does."""
        settled, sizes = self._prefix.n, self._sizes
        while sizes and sizes[0][0] <= settled:
            sizes.popleft()

    def make_room(self) -> None:
        """Give messages back to the node whose address no loop has asked for yet, if half the window is taken: what is
        pulled comes behind them, and would have no room."""
        if self._is_crowded and None not in self._asked and self._has_parsed():
            self._leave_unread(is_reported=False)

    def _leave_unread(self, *, is_reported: bool = True) -> None:
        """Give messages back to the node whose address no loop has ever asked for, and report each address once. Called
        when a loop has to wait while half the window is taken."""
        for address, count in self._waiting.addresses().items():
            if address in self._asked:
                continue
            if is_reported and address not in self._reported:
                self._reported.add(address)
                whose = "unicasts" if address == UNICASTS else f"messages of {short(key_text('group', address))}"
                said = f"{count} {whose} wait, which this app gets but does not read, and stay in the node's queue"
                self._problem(f"{said}: read them, leave the group, or use another name for another purpose")
            for one in self._waiting.all_of(address):
                self._waiting.remove(one)
                self._leave(one)

    def _leave(self, one: Arrival) -> None:
        self._unread.add(one.address, one.id)
        self.refuse(one, unread.REASON, unread.TEXT)

    def done(self, one: Arrival) -> None:
        """Mark a message as done, when the app has handled it."""
        if not one.done:
            one.done = True
            one.data = b""
            self._recent.end(one)
            self._end_aside(one.link, one.k, one.refused)

    def refuse(self, one: Arrival, reason: Reason, text: str) -> None:
        """Refuse a message: for the node that is its end, unless the reason is a *later* one."""
        if not one.done:
            one.refused = reason, text
            self.done(one)
            if reason.later:
                self._recent.forget(one.id)  # it comes again, and is then no copy

    def _end_aside(self, link: int, k: int, refused: Verdict | None) -> None:
        if refused is not None and link == self._link:
            self._refusals.append((k, *refused))
            self._wake_link()
        self._end(link, k, k)

    def _end(self, link: int, first: int, last: int) -> None:
        if link == self._link:
            before = self._prefix.n
            self._prefix.add(first, last)
            if self._prefix.n > before:
                self._wake_link()

    # -- parsing -------------------------------------------------------------------------------------------

    def _parse(self) -> None:
        """Parse all reads into arrivals. If the journal cannot be read, nothing has changed."""
        while self._reads:
            arrivals, nonsense = arrivals_of(self._reads[0])
            known = self._known([one.id for one in arrivals])
            link = self._reads.popleft().link
            for k, error in nonsense:
                self._problem(f"the node delivered bytes that are no message: {error}")
                self._end(link, k, k)
            for one in arrivals:
                if self._is_copy(one):
                    continue
                self._recent.add(one)
                if one.id in known:
                    self.done(one)
                elif self._unread.holds(one.address, one.id, self._asked):
                    self._leave(one)
                else:
                    self._waiting.add(one)

    def _is_copy(self, one: Arrival) -> bool:
        """Whether this is a copy of a recent message; if so, it replaces the first."""
        if one.id not in self._recent:
            return False
        first = self._recent.open(one.id)
        if first is None:
            self._end_aside(one.link, one.k, self._recent.refusal(one.id))
        elif first.link == one.link:
            self._end_aside(one.link, one.k, None)
        else:
            first.link, first.k = one.link, one.k
        return True


def _without(holes: Sequence[int], first_k: int, spans: Sequence[Span]) -> tuple[list[tuple[int, int]], list[Span]]:
    """Return the ranges of numbers, and the spans, that remain between the holes."""
    runs: list[tuple[int, int]] = []
    kept: list[Span] = []
    at = 0
    for hole in (*holes, len(spans)):
        if at < hole:
            runs.append((first_k + at, first_k + hole - 1))
            kept += spans[at:hole]
        at = hole + 1
    return runs, kept
