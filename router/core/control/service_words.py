"""Requests of services of this node to its router: learn, grant, note, answer; each is one JSON object, a transaction.

They are accepted only from the keys of services that the configuration names, over any link: it makes no difference
whether a service runs in the node's process, in one that the node started, or in one started otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from router.core.link.allowance import Allowance
from router.core.log import events as ev
from router.core.neighbours.advertisements import Advertised, Entry
from router.core.neighbours.book import ENTRIES_MAX, Book, Granted, Learned, Row
from router.core.neighbours.directory import DISCOVERY, OF_CLIENTS, PUBSUB, WHY, Directory, Neighbour
from router.core.neighbours.own_advertisement import CannotAdvertise, OwnAdvertisement
from router.core.routing.effects import Dial, ListenFor, Pending, ServiceAnswered
from router.core.routing.links import Link, Links
from router.core.wire.admin import CAUGHT_UP, IDS_ONLY, Answer, Inquiry
from router.core.wire.crypto import InvalidKey, PublicKey
from router.core.wire.now import Now
from router.core.wire.reasons import REASON_MAX, Reason

from .catch_ups import CatchUps
from .published import PublishedIds
from .pulls import PULL, Pulls

LEARN, GRANT, AGREE, NOTE, ANSWER = "learn", "grant", "agree", "note", "answer"
ADVERTISE, LISTEN, DIAL = "advertise", "listen", "dial"
WORDS = frozenset((LEARN, GRANT, AGREE, PULL, NOTE, ANSWER, ADVERTISE, LISTEN, DIAL, CAUGHT_UP, IDS_ONLY))
NOTES_PER_S = 200.0
NOTES_BURST = 1000.0
DAY_S = 86_400
FIELDS_MAX = 16
OWN_KEY = "that is a key of this node itself"
AGREED_GROUPS_MAX = 512

Hex = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
Ids = Annotated[str, Meta(pattern=rf"^(?:[0-9a-f]{{64}}){{1,{ev.NOTED_IDS_MAX}}}\Z")]
Seconds = Annotated[int, Meta(ge=0, le=1 << 40)]
Name = Annotated[str, Meta(max_length=64)]


class _Learn(Struct, forbid_unknown_fields=True):
    key: Hex
    urls: Annotated[tuple[Annotated[str, Meta(max_length=512)], ...], Meta(max_length=8)] = ()
    until_s: Seconds = 0
    name: Name = ""
    how: Literal["", "lan", "hint"] = ""


class _Grant(Struct, forbid_unknown_fields=True):
    key: Hex
    rights: Annotated[tuple[str, ...], Meta(max_length=8)] = ()
    until_s: Seconds = 0
    uses: Annotated[int, Meta(ge=0, le=1 << 31)] = 0


class _Agree(Struct, forbid_unknown_fields=True):
    key: Hex
    groups: Annotated[tuple[Hex, ...], Meta(max_length=AGREED_GROUPS_MAX)] = ()
    until_s: Seconds = 0
    lan: bool = False


class _Listen(Struct, forbid_unknown_fields=True):
    url: Annotated[str, Meta(max_length=512)] = ""


class _Dial(Struct, forbid_unknown_fields=True):
    key: Hex


class NotedEvent(Struct, forbid_unknown_fields=True):
    """An event as a service writes it down; its host judges each by this form before it is kept.

    `message`: the ids of the messages that it is about, joined."""

    event: str
    message: Ids | None = None
    reason: Annotated[int, Meta(ge=0, le=REASON_MAX)] | None = None
    fields: Annotated[dict[Name, str | int | bool], Meta(max_length=FIELDS_MAX)] = {}


class _Note(Struct, forbid_unknown_fields=True):
    epoch: Annotated[str, Meta(pattern=r"^[0-9a-f]{16}\Z")]
    first: Annotated[int, Meta(ge=1)]
    events: tuple[NotedEvent, ...]


class _Answer(Struct, forbid_unknown_fields=True):
    number: Annotated[int, Meta(ge=0)]
    value: Any


class ServiceWords:
    """Carries out the requests of services; `pulls` handles requests for missing messages, which apps may make too.

    `change(act, now)` changes the directory and ends everything that depended on lost rights; `met(keys, now)` applies
    changes of agreements; `say` sends the answer."""

    def __init__(
        self,
        directory: Directory,
        book: Book,
        links: Links,
        pulls: Pulls,
        catch_ups: CatchUps,
        pending: Pending,
        change: Callable[[Callable[[], None], Now], None],
        met: Callable[[Iterable[bytes], Now], None],
        say: Callable[[Link, Answer, Now], object],
        own: OwnAdvertisement,
        published: PublishedIds,
    ) -> None:
        self._directory = directory
        self._book = book
        self._links = links
        self._pulls = pulls
        self._catch_ups = catch_ups
        self._published = published
        self._own = own
        self._pending = pending
        self._change = change
        self._met = met
        self._say = say
        self._allowed: dict[bytes, Allowance] = {}

    def hear(self, link: Link, inquiry: Inquiry, now: Now) -> tuple[Reason, str] | None:
        """Carry out a service's request and answer it once that is committed; return why it is refused, or None."""
        if inquiry.ask == PULL:
            return self._pulls.ask(link, inquiry, now)
        if link.key not in self._directory.services:
            return Reason.NOT_AUTHORISED, f"only services that node.services names may say {inquiry.ask}"
        words: Mapping[str, Callable[[bytes, str, Now], dict[str, Any]]] = {
            LEARN: self._learn,
            GRANT: self._grant,
            AGREE: self._agree,
            NOTE: self._note,
            ANSWER: self._answer,
            ADVERTISE: self._advertise,
            LISTEN: self._listen,
            DIAL: self._dial,
            CAUGHT_UP: self._catch_ups.caught_up,
            IDS_ONLY: self._published.asked,
        }
        try:
            answer = words[inquiry.ask](link.key, inquiry.argument, now)
        except (msgspec.ValidationError, msgspec.DecodeError, InvalidKey) as error:
            answer = {"error": f"{inquiry.ask}: {str(error)[:200]}"}
        self._say(link, Answer(json.dumps(answer).encode()), now)
        return None

    def _write(self, rows: Sequence[Row]) -> None:
        self._pending.changes.book.update(rows)

    def rewrite(self, rows: Callable[[], Sequence[Row]], now: Now) -> None:
        """Change the book, and with it the directory's neighbours."""

        def act() -> None:
            self._write(rows())
            self._merge(now)

        self._change(act, now)

    def _merge(self, now: Now) -> None:
        directory = self._directory
        found = self._book.neighbours(directory.configured, now.judged_s, on_loopback=directory.is_on_loopback)
        directory.merge(found)

    # -- words ---------------------------------------------------------------------------------------------

    def _learn(self, by: bytes, argument: str, now: Now) -> dict[str, Any]:
        said = msgspec.json.decode(argument, type=_Learn)
        key = bytes(PublicKey.checked(bytes.fromhex(said.key)))
        one = Learned(by, key, said.name, said.urls, said.until_s, said.how)
        if one.until_s > now.wall_s and not self._book.takes_learned(by, key):
            most = f"services have made {self._book.learned_max} neighbours known, and that is the most"
            return {"error": f"{most}; let go of some, or raise limits.learned_max"}
        if key == self._directory.me or key in self._directory.locals:
            return {"error": OWN_KEY}
        self.rewrite(lambda: [self._book.learn(one, now.wall_s)], now)
        return {"learned": (by, key) in self._book.learned}

    def _grant(self, by: bytes, argument: str, now: Now) -> dict[str, Any]:
        said = msgspec.json.decode(argument, type=_Grant)
        rights, known = frozenset(said.rights), OF_CLIENTS | {WHY}
        if not rights <= known:
            return {"error": f"{min(rights - known)} is no right; there are {', '.join(sorted(known))}"}
        key = bytes(PublicKey.checked(bytes.fromhex(said.key)))
        if not self._book.takes_grant(by, key):
            return {"error": f"this service has given rights to {ENTRIES_MAX} keys, the most it may; take some back"}
        one = Granted(by, key, rights, said.until_s, said.uses or None)
        self.rewrite(lambda: [self._book.grant(one, now.wall_s)], now)
        return {"granted": (by, key) in self._book.granted}

    def _agree(self, by: bytes, argument: str, now: Now) -> dict[str, Any]:
        said = msgspec.json.decode(argument, type=_Agree)
        key = bytes(PublicKey.checked(bytes.fromhex(said.key)))
        groups = [bytes(PublicKey.checked(bytes.fromhex(one))) for one in said.groups]
        if key == self._directory.me or key in self._directory.locals:
            return {"error": OWN_KEY}
        forgotten = self._directory.agreements.agree(by, key, groups, said.until_s, now.wall_s, lan=said.lan)
        self._agreed((key, *forgotten), now)
        return {"agreed": self._directory.agreements.is_met(key)}

    def _agreed(self, routers: Iterable[bytes], now: Now) -> None:
        """Keep and log the changes in the agreements with these routers, and apply them."""
        agreements = self._directory.agreements
        self._pending.changes.book.update(agreements.rows())
        for router, shared in agreements.news():
            fields = (("peer", router), ("groups", len(shared.groups)), ("lan", len(shared.lan)))
            self._pending.changes.events.append(ev.State(now.wall_ns, now.mono_ns, "met", fields))
        self._met(routers, now)

    def _listen(self, by: bytes, argument: str, now: Now) -> dict[str, Any]:
        said = msgspec.json.decode(argument, type=_Listen)
        self._pending.effects.append(ListenFor(by, said.url))
        return {}

    def _dial(self, by: bytes, argument: str, now: Now) -> dict[str, Any]:
        key = bytes.fromhex(msgspec.json.decode(argument, type=_Dial).key)
        is_connected = self._links.to(key) is not None
        if not is_connected:
            self._pending.effects.append(Dial(key))
        return {"connected": is_connected}

    def _note(self, by: bytes, argument: str, now: Now) -> dict[str, Any]:
        """Log the events that the log does not hold yet, as many as the service's rate allows now."""
        said = msgspec.json.decode(argument, type=_Note)
        epoch, declared = bytes.fromhex(said.epoch), self._directory.services[by].events
        before = last = self._book.last_noted(by, epoch)
        allowed = self._allowed.setdefault(by, Allowance(NOTES_PER_S, NOTES_BURST))
        for number, one in enumerate(said.events, said.first):
            if number <= last:
                continue
            if one.event not in declared and last > before:
                break
            if one.event not in declared:
                said_by = self._directory.services[by].name
                text = f'the event "{one.event}" was not declared in the events.py of {said_by} when the node started'
                return {"error": f"{text}; start the node again if it is now"}
            if not allowed.take(1, now.mono_s):
                break
            ids = b"" if one.message is None else bytes.fromhex(one.message)
            fields = (("service", self._directory.services[by].name), *one.fields.items())
            event = ev.Noted(now.wall_ns, now.mono_ns, one.event, by, ids, one.reason, fields)
            self._pending.changes.events.append(event)
            last = number
        self._write([self._book.note(by, epoch, last)])
        return {"noted": last}

    def _answer(self, by: bytes, argument: str, now: Now) -> dict[str, Any]:
        said = msgspec.json.decode(argument, type=_Answer)
        text = msgspec.json.encode(said.value)
        self._pending.effects.append(ServiceAnswered(by, said.number, text))
        return {}

    def _advertise(self, by: bytes, argument: str, now: Now) -> dict[str, Any]:
        if not any(self._directory.has_role(by, role) for role in (DISCOVERY, PUBSUB)):
            return {"error": f'only the services called "{DISCOVERY}" and "{PUBSUB}" advertise this router'}
        try:
            made, rows = self._own.sign(argument, now)
        except CannotAdvertise as error:
            return {"error": str(error)}
        self._write(rows)
        return {"message": made.message.hex()}

    # -- advertisements of other routers ---------------------------------------------------------------------

    def advertised(self, said: Advertised, now: Now) -> tuple[Reason, str] | None:
        """Take an advertisement that the discovery service announces into the address book; return why not, or None.

        A known one only counts as heard again. This router itself, and keys of this node, do not become neighbours."""
        entry = self._book.advertisements.read(said, now.judged_s)
        if not isinstance(entry, Entry):
            return entry
        if entry.router == self._directory.me or entry.router in self._directory.locals:
            return None
        if entry.until_s <= now.judged_s:
            return Reason.EXPIRY_PASSED, "the advertisement has expired"
        gone, rows = self._book.hear(entry, lambda key: self._links.to(key) is not None)
        if rows:
            fields = (("peer", entry.router), ("rev", entry.advert.rev), ("until_s", entry.until_s))
            self._pending.changes.events.append(ev.State(now.wall_ns, now.mono_ns, "advert", fields))
            self._log_gone(gone, "full", now)
            self.rewrite(lambda: rows, now)
        return None

    def _log_gone(self, gone: Iterable[Entry], because: str, now: Now) -> None:
        for one in gone:
            fields = (("peer", one.router), ("removed", True), ("because", because))
            self._pending.changes.events.append(ev.State(now.wall_ns, now.mono_ns, "advert", fields))

    def configured(self, neighbours: Iterable[Neighbour], now: Now, written: Iterable[PublicKey] = ()) -> None:
        """Apply a new configuration of neighbours; the entries of services stay in addition, and so do grants of guests
        that it does not hold yet.

        It holds the grants of the keys in `written`; a key that it held before, and no longer holds or blocks, has none
        any more."""

        def act() -> None:
            before, invitations = self._directory.configured, self._book.invitations
            self._directory.replace_neighbours(neighbours)
            after = self._directory.configured
            gone = [key for key, _, _ in invitations.owed() if key in before and key not in after]
            gone += [key for key, _, _ in invitations.owed() if key in after and after[key].blocked]
            self._write([row for key in (*gone, *written) for row in invitations.written(key)])
            self._merge(now)

        self._change(act, now)

    # -- what happens by itself ------------------------------------------------------------------------------

    def began(self, rows: Sequence[tuple[bytes, bytes]], now: Now) -> None:
        """Load the book from the store, without entries that have ended, and merge it into the directory."""
        names = {key: one.name for key, one in self._directory.services.items()}
        gone = [*self._book.load(rows, names), *self._book.over(now.judged_s), *self._book.used_up()]
        over, deleted = self._book.adverts_over(now.judged_s)
        self._write([*gone, *deleted])
        self._log_gone(over, Reason.EXPIRY_PASSED.word, now)
        self._directory.agreements.load(rows, names)
        self._merge(now)

    def signed_on(self, key: bytes, now: Now) -> None:
        """Take a use of each grant of a key that signs on; a grant without a use left ends."""
        of_it = [one.left for one in self._book.granted.values() if one.key == key]
        if 0 in of_it:
            self.rewrite(lambda: self._book.signed_on(key, now.judged_s), now)
        elif of_it:
            self._write(self._book.signed_on(key, now.judged_s))

    def signed_off(self, key: bytes, now: Now) -> None:
        """End the grants without a use left of a key whose link is down."""
        if any(one.left == 0 and one.key == key for one in self._book.granted.values()):
            self.rewrite(lambda: self._book.signed_off(key, now.judged_s), now)

    def lan_is_back(self, key: bytes, now: Now) -> None:
        """Let the agreements with a LAN neighbour last anew from its return."""
        if key in self._directory.agreements.lan:
            self._directory.agreements.renew(key, now.judged_s)
            self._pending.changes.book.update(self._directory.agreements.rows())

    def lan_ends(self, key: bytes, now: Now) -> None:
        """End the agreements with a LAN neighbour that has been away for too long."""
        if key in self._directory.agreements.lan:
            self._directory.agreements.end(key)
            self._agreed((key,), now)

    def tick(self, now: Now) -> None:
        """Delete the entries whose time is over."""
        lapsed = self._directory.agreements.lapse(now.judged_s, lambda key: self._links.to(key) is None)
        if lapsed:
            self._agreed(lapsed, now)
        book, now_s = self._book, now.judged_s
        over, deleted = book.adverts_over(now_s)
        if over:
            self._log_gone(over, Reason.EXPIRY_PASSED.word, now)
            self.rewrite(lambda: deleted, now)
        configured = (one.until_s for one in self._directory.neighbours.values() if not one.blocked and one.until_s)
        if min((*book.ends_s(), *configured), default=now_s + 1) <= now_s:
            self.rewrite(lambda: book.over(now_s), now)
