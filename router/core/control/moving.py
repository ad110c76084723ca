"""Moving: this router says to its chosen neighbours where it is reached, hears where they are, and asks others for one
that does not answer (cddl/whereabouts.cddl; docs/networks.md, "Moving a core").

The statement is signed anew at each start and at each change, and said on each link to a client or peer. One about a
third router counts only as the answer to a question: of a neighbour that this router dials and has not reached, it asks
its uplinks and peers, never its clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from router.core.link.allowance import Allowance
from router.core.log import events as ev
from router.core.neighbours.directory import Neighbour, Standing
from router.core.neighbours.whereabouts import most_useful, own_places
from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.wire.address import AddressSource, TransportAddress, parse_address, refusal_of
from router.core.wire.crypto import PublicKey
from router.core.wire.now import Now
from router.core.wire.reasons import Reason
from router.core.wire.succession import CHAIN_MAX
from router.core.wire.whereabouts import PLACES_MAX, AskWhereabouts, DatedAddress, Whereabouts, make_whereabouts

from .part import Hears, Orders, Part, Refused
from .rights import Rights

CHOSEN = (Standing.CLIENT, Standing.PEER)
"""The standings of neighbours that an operator has chosen: they are told, asked and believed about themselves."""
ASK_AFTER_S, ASK_AGAIN_S = 10, 300
"""How long a neighbour must be away before others are asked where it is, and how often they are asked again."""
SEEK_MAX = 64
"""The most neighbours that others are asked for at a time."""
ASKED_MAX = 8
"""The most neighbours that are asked for one."""
TAKEN_AT_ONCE, TAKEN_EVERY_S = 8, 30
"""How many statements of a neighbour are taken in at once, and after how many seconds a further one; of those that come
meanwhile the newest waits."""
AHEAD_S_MAX = 366 * 86_400
"""How far ahead an address may be announced."""
MOVE, UNMOVE, PLACES = "move", "unmove", "whereabouts"


class _Move(Struct, forbid_unknown_fields=True):
    """An address that the operator announces, and the Unix second from which it counts; 0: now."""

    url: str
    since_s: int = 0


class Moving(Part):
    """Owns what this router says of its addresses, and takes in what chosen neighbours say of theirs."""

    def __init__(self, kernel: Kernel, rights: Rights) -> None:
        self._key = kernel.key
        self._directory = kernel.directory
        self._book = kernel.book
        self._known = kernel.book.whereabouts
        self._known.ask_formers(kernel.directory.successors.formers)
        self._links = kernel.links
        self._queues = kernel.queues
        self._pending = kernel.pending
        self._say = kernel.speaker.say
        self._rights = rights
        self._own: Whereabouts | None = None  # as signed in this run
        self._untold: set[int] = set()  # links that have not been told it
        self._sought: dict[bytes, float] = {}  # neighbours that do not answer, and when others are asked for them next
        self._asked: set[bytes] = set()  # those of them of which others were asked
        self._held: dict[bytes, Whereabouts] = {}  # the newest statement of each router that is not taken in yet
        self._allowances: dict[bytes, Allowance] = {}
        self._next_s: int | None = None  # when the next address begins to count
        self._revision = -1

    def __repr__(self) -> str:
        return f"<moving: {self._own!r}, {len(self._sought)} neighbours sought>"

    @property
    def damaged(self) -> Sequence[bytes]:
        """Return the routers whose row in the store was damaged when this one started."""
        return self._book.damaged_whereabouts

    def began(self, now: Now) -> None:
        """Log the rows that were damaged and left out."""
        for router in self.damaged:
            self._log(router, (("damaged", True),), now)

    # -- what others say and ask -------------------------------------------------------------------------------

    def told(self, link: Link, said: Whereabouts, now: Now) -> Refused:
        """Take in the whereabouts of a neighbour; return why not, or None."""
        if said.router == self._directory.me:
            return None
        if link.app or link.standing not in CHOSEN:
            return Reason.NOT_AUTHORISED, "only neighbours that were chosen say whereabouts here"
        if link.key != said.router and said.router not in self._asked:
            return Reason.NOT_AUTHORISED, "nobody was asked for the whereabouts of that router"
        known = self._directory.neighbours.get(said.router)
        if known is None or self._directory.standing(said.router, owner=False) not in CHOSEN:
            return Reason.NOT_AUTHORISED, "that router is no neighbour that was chosen here"
        held = self._held.get(said.router)
        if refused := self._known.judge(said, now.judged_s, held):
            return refused
        if said not in (held, self._known.of(said.router)):
            self._held[said.router] = said
            self._take_held(now)
        return None

    def _take_held(self, now: Now) -> None:
        """Take in the newest statement of each router whose allowance permits: what it changes is written, logged and
        dialled, so one that says another place a thousand times a second gets no more of that than others do."""
        for router, said in [*self._held.items()]:
            known = self._directory.neighbours.get(router)
            if known is None:
                del self._held[router]
                continue
            allowance = self._allowances.setdefault(router, Allowance(1 / TAKEN_EVERY_S, TAKEN_AT_ONCE))
            if allowance.take(1, now.mono_s):
                del self._held[router]
                self._take(said, known, now)

    def _take(self, said: Whereabouts, known: Neighbour, now: Now) -> None:
        row = self._known.put(said)
        if known.urls:
            self._rights.rewrite(lambda: (row,), now)
        else:
            self._rights.write((row,))  # it is not dialled, but others may ask for it
        self._next_s = self._known.next_since_s(now.judged_s)
        places = " ".join(one.address.url for one in said.places)
        self._log(said.router, (("rev", said.rev), ("at", places)), now)

    def asked(self, link: Link, said: AskWhereabouts, now: Now) -> Refused:
        """Tell a client or peer where a router is, if its whereabouts are known; return why it is refused, or None."""
        if link.app or link.standing not in CHOSEN:
            return Reason.NOT_AUTHORISED, "only neighbours that were chosen ask for whereabouts here"
        found = self._own if said.router == self._directory.me else self._known.of(said.router)
        if found is not None:
            self._say(link, found, now)
        return None

    HEARS: ClassVar[Hears] = {Whereabouts: told, AskWhereabouts: asked}

    # -- orders ------------------------------------------------------------------------------------------------

    def _move(self, argument: str, now: Now) -> dict[str, Any]:
        """Announce an address beside the others; the answer has what is named now, and what is named no longer."""
        said = msgspec.json.decode(argument, type=_Move)
        before = self._places(now)
        if not before:
            raise ValueError(
                "this node names no address to others, so nobody dials it: name one in node.advertise or node.listen"
            )
        address = parse_address(said.url)
        on_loopback = self._directory.is_on_loopback
        if refused := refusal_of(address, AddressSource.OPERATOR, on_loopback=on_loopback):
            raise ValueError(f"{said.url}: {refused[1]}")
        since_s = said.since_s or now.judged_s
        if since_s > now.judged_s + AHEAD_S_MAX:
            raise ValueError("an address is announced a year ahead at the most; announce it later")
        others = [one for one in before if one.address != address]
        after = most_useful([DatedAddress(address, since_s), *others], self._directory.addresses)
        if DatedAddress(address, since_s) not in after:
            raise ValueError(
                f"{PLACES_MAX} later addresses are named already; `router move --forget URL` takes one back"
            )
        self._sign(after, now)
        return {
            **self._list("", now),
            "gone": [one.address.url for one in before if one not in after and one in others],
        }

    def _forget(self, argument: str, now: Now) -> dict[str, Any]:
        """Take an announced address back."""
        address = parse_address(argument)
        before = self._places(now)
        if address in self._directory.addresses:
            raise ValueError(f"{argument} is where this node is now; change node.advertise or node.listen instead")
        if address not in [one.address for one in before]:
            raise ValueError(f"{argument} is not announced; `router move` lists what is")
        self._sign([one for one in before if one.address != address], now)
        return self._list("", now)

    def announced(self, now: Now) -> list[dict[str, Any]]:
        """Return the addresses that this router names to its neighbours: `url`, `since_s` in Unix seconds, and `state`:
        "here" where it listens or what it advertises, "next" if it is newer than these, else "former"."""
        here, places = self._directory.addresses, self._places(now)
        newest_s = max((one.since_s for one in places if one.address in here), default=0)
        return [
            {
                "url": one.address.url,
                "since_s": one.since_s,
                "state": "here" if one.address in here else "next" if one.since_s > newest_s else "former",
            }
            for one in places
        ]

    def _list(self, _: str, now: Now) -> dict[str, Any]:
        rows = self.announced(now)
        chosen = [one for one in self._links if not one.app and one.standing in CHOSEN]
        return {"places": rows, "told": sum(one.id not in self._untold for one in chosen), "neighbours": len(chosen)}

    ORDERS: ClassVar[Orders] = {MOVE: _move, UNMOVE: _forget, PLACES: _list}

    # -- what happens by itself --------------------------------------------------------------------------------

    def link_up(self, link: Link, now: Now) -> None:
        """Have a router told where this one is."""
        self._sought.pop(link.key, None)
        self._asked.discard(link.key)
        if not link.app:
            self._untold.add(link.id)

    def link_down(self, link: Link, now: Now) -> None:
        """Forget a link that is gone; the neighbour is told again on its next one."""
        self._untold.discard(link.id)

    def tick(self, now: Now) -> None:
        """Sign what has changed, say what is unsaid, and ask for neighbours that do not answer."""
        places = self._places(now)
        if places and (self._own is None or self._own.places != places):
            self._sign(places, now)
        if self._own is not None and places:
            self._tell(self._own, now)
        self._take_held(now)
        if self._next_s is not None and self._next_s <= now.judged_s:
            self._rights.rewrite(tuple, now)
            self._next_s = self._known.next_since_s(now.judged_s)
        if self._revision != self._directory.revision:
            self._forget_strangers()
            self._next_s = self._known.next_since_s(now.judged_s)
            self._revision = self._directory.revision
        self._seek(now)

    def _places(self, now: Now) -> tuple[DatedAddress, ...]:
        """Return what this router names now: nothing as long as it has no address of its own."""
        addresses: tuple[TransportAddress, ...] = self._directory.addresses
        known = self._known.latest(self._directory.me)
        return own_places(known.places if known is not None else (), addresses, now.judged_s) if addresses else ()

    def _sign(self, places: Iterable[DatedAddress], now: Now) -> None:
        rev = self._known.next_rev(self._directory.me, now.judged_s)
        self._own = make_whereabouts(self._key, places, rev)
        self._rights.write((self._known.put(self._own),))
        self._untold = {one.id for one in self._links if not one.app}
        at = " ".join(one.address.url for one in self._own.places)
        self._log(self._directory.me, (("rev", rev), ("at", at)), now)

    def _tell(self, own: Whereabouts, now: Now) -> None:
        for number in sorted(self._untold):
            link = self._links.get(number)
            if link is None or (link.standing in CHOSEN and self._say(link, own, now)):
                self._untold.discard(number)

    def _forget_strangers(self) -> None:
        """Forget the whereabouts of routers that were chosen once and are not any more. Those by earlier keys of a
        chosen one stay: others may know it by one of these, and ask for it."""
        gone = [one.router for one in self._known if not self._is_kept(one.router)]
        for router in [one for one in self._allowances if not self._is_chosen(one)]:
            del self._allowances[router]
        self._rights.write([self._known.forget(one) for one in gone])

    def _is_kept(self, router: bytes) -> bool:
        directory, successors = self._directory, self._directory.successors
        newest = successors.newest(router) if router in successors else router
        is_recent = newest == router or router in successors.formers(newest)[:CHAIN_MAX]
        return is_recent and (newest == directory.me or self._is_chosen(newest))

    def _is_chosen(self, router: bytes) -> bool:
        return self._directory.standing(router, owner=False) in CHOSEN

    def _seek(self, now: Now) -> None:
        """Ask uplinks and peers for neighbours that are dialled and do not answer."""
        away = [key for key, one in self._directory.neighbours.items() if one.urls and self._is_missed(key, one)]
        self._sought = {key: self._sought.get(key, now.mono_s + ASK_AFTER_S) for key in away[:SEEK_MAX]}
        self._asked &= self._sought.keys()
        due = [key for key, at_s in self._sought.items() if at_s <= now.mono_s]
        if not due:
            return
        routers = (one for one in self._links if not one.app)
        others = [one for one in routers if one.standing is Standing.PEER or one.uplink][:ASKED_MAX]
        for key in due:
            told = [self._say(link, AskWhereabouts(PublicKey(key)), now) for link in others]
            if any(told):
                self._asked.add(key)
                self._sought[key] = now.mono_s + ASK_AGAIN_S

    def _is_missed(self, key: bytes, known: Neighbour) -> bool:
        """Whether this router dials a chosen neighbour and has no link to it."""
        is_dialled = known.uplink or key in self._queues.by_recipient
        return is_dialled and self._links.to(key) is None and self._is_chosen(key)

    def _log(self, router: bytes, more: ev.Fields, now: Now) -> None:
        fields = (("peer", bytes(router)), *more)
        self._pending.changes.events.append(ev.by_router(self._directory.me, ev.WHEREABOUTS, fields, now))
