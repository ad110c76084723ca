"""`router why` on a running node: what became of a message, here and, if they permit it, at the next routers.

The log is searched in a thread, one search at a time. The router's own state is read between its transactions, so a
search's result reaches the cycle as an event like any other; work that takes time is returned to the caller as a deed.
A neighbour, or an app from elsewhere, is answered only about messages that were accepted from it, only if the operator
granted it `why`, and with numbers instead of names (`core/why/report.py`). It may ask us to ask further routers, at a
depth that decreases by one at each. A local service that did not connect by the owner's socket is answered likewise,
but with names and without a grant.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from msgspec.structs import replace

from router.core.neighbours.directory import WHY
from router.core.router import Router
from router.core.routing.not_owed import lan_not_owed
from router.core.routing.parcel import Parcel
from router.core.service.roles import Role
from router.core.why.fate import UNACCOUNTED, Carrier, Fate, Prospect, Trace, fate
from router.core.why.id_prefix import IdPrefix, parse_prefix
from router.core.why.report import NeighbourReport, decode_report, encode_report, may_hear, report
from router.core.wire.admin import Inquiry, numbered
from router.core.wire.now import Now
from router.core.wire.text import BadText
from router.disk.log.search import CANDIDATES_MAX, FoundEvents, LogSnapshot, offered, unaccepted
from router.disk.store.history import Page
from router.disk.store.records import Record
from router.disk.store.terms import StoreError
from router.why.answers import not_one, one
from router.why.sealed import sealed_json
from router.why.steps import MISREAD, Begin, Deeds, Find, Look, News, Over, Question, Remind, Round, Searched

WAITING_MAX = 16
DEPTH_MAX = 4
ASKED_MAX = 32
PATIENCE_S = 1.0
LOOKS_MAX = 5
FOLLOW = "follow"
NOT_PERMITTED = "its operator has not granted us `why`"
NOT_YOURS = "it knows no such message from us"
NO_ANSWER = "it did not answer in time"
NOT_CONNECTED = "it is not connected now"
DAMAGED = "the event log cannot be read"
STORE_DAMAGED = "the store cannot be read"
NOT_THE_SERVICE_S = "this node knows no such message that this app handed over"
WHOLE_ID = "other than on the owner's socket, ask with the whole id of a message"
BUSY = "it is busy with other questions; ask again"
NOT_ASKED = f"it was not asked: for one message at most {ASKED_MAX} routers are; `router why` there tells"
CHANGING = "changing now: it is no longer queued, and its end was written while the log was read; ask again"


class Logs(Protocol):
    """Access to the event log (`router.disk.log.logbook.Logbook`)."""

    def log(self) -> LogSnapshot: ...


class MessageRecords(Protocol):
    """The store's records of a message, by the beginning of its id (`router.disk.store.records.Records`)."""

    def accepted(self, prefix: IdPrefix, router: bytes, most: int) -> list[Record]: ...
    def knows(self, identity: bytes) -> bool: ...
    def held(self, group: bytes, after: int, most: int, since_s: int = 0) -> Page: ...
    def known(self, asked: Sequence[tuple[int, bytes]]) -> set[bytes]: ...


class FateStore(Protocol):
    """The part of a store that a question needs (`router.disk.store.store.Store`)."""

    @property
    def records(self) -> MessageRecords: ...
    def owes(self, recipient: bytes, first: int, index: int) -> bool: ...
    def message(self, identity: bytes, /) -> tuple[Parcel, int] | None: ...


class View(Protocol):
    """The state that the message router's cycle shows between two transactions."""

    router: Router

    @property
    def store(self) -> FateStore: ...
    def hear(self, heard: News) -> object: ...


class Fates:
    """Answers questions, asks other routers, and waits for their answers; every step returns the deeds to be done
    outside. At most `WAITING_MAX` questions are open. `known_keys` returns the names of the keys that the home keeps,
    from memory."""

    def __init__(
        self,
        logbook: Logs,
        problems: Callable[[], dict[bytes, str]],
        ttl_s_max: int,
        known_keys: Callable[[], Mapping[bytes, str]] = dict,
    ) -> None:
        self._logbook = logbook
        self._known_keys = known_keys
        self._ttl_s_max = ttl_s_max
        self._problems = problems
        self._open = 0
        self._asking: set[bytes] = set()  # neighbours and services whose question is open here
        self._awaited: dict[tuple[str, str], set[Round]] = {}  # by neighbour and message, both as hex

    def __repr__(self) -> str:
        return f"<fates: {self._open} questions are open, {len(self._awaited)} asked of others>"

    # -- being asked -----------------------------------------------------------------------------------------

    def ask(
        self, view: View, link: int, argument: str, service: bytes | None, now: Now, mark: int | None = None
    ) -> Deeds:
        """Begin a question: the owner may ask about the beginning of an id, and with `follow`; a local `service` about
        a whole id. `mark`: the number under which it is answered."""
        text, _, more = argument.partition(" ")
        try:
            prefix = parse_prefix(text)
        except BadText as error:
            return self._answer(view, link, mark, _json({"error": str(error)}), now)
        question = Question(link, text, prefix, None, DEPTH_MAX if more == FOLLOW else 0, service, mark)
        if service is not None and not prefix.is_id:
            return self._answer(view, link, mark, _error(question, WHOLE_ID), now)
        if service is not None and service in self._asking:
            return self._answer(view, link, mark, _error(question, BUSY), now)
        return self._begin(view, question, now)

    def asked(self, view: View, link: int, neighbour: bytes, argument: str, now: Now, mark: int | None = None) -> Deeds:
        """Begin a question of a neighbour's router or app: a whole id, and the number of further routers to ask, which
        is 0 if it is missing."""
        text, _, depth = argument.partition(" ")
        depth = depth or "0"
        said = NeighbourReport(text[:64])
        if WHY not in view.router.directory.grants(neighbour):
            return self._answer(view, link, mark, encode_report(replace(said, problem=NOT_PERMITTED)), now)
        try:
            prefix = parse_prefix(text)
        except BadText:
            prefix = IdPrefix(bytes(32), 0)
        if not prefix.is_id or not depth.isdecimal():
            return self._answer(view, link, mark, encode_report(replace(said, problem=NOT_YOURS)), now)
        if neighbour in self._asking:
            return self._answer(view, link, mark, encode_report(replace(said, problem=BUSY)), now)
        further = min(int(depth[:2]), DEPTH_MAX - 1)
        return self._begin(view, Question(link, text, prefix, neighbour, further, mark=mark), now)

    def answered(self, view: View, neighbour: bytes, text: bytes, now: Now) -> Deeds:
        """Take another router's report, and answer the questions for which it was the last one missing; ignore an
        unexpected report."""
        told = decode_report(text)
        if told is not None:
            keys = {neighbour.hex(), *_formers(view, neighbour)}
            for round_ in self._awaited.pop((neighbour.hex(), told.message), ()):
                round_.reports |= dict.fromkeys(round_.missing & keys, told)
                round_.missing -= keys
                if not round_.missing:
                    self._tell(view, round_, now)
        return []

    def hear(self, view: View, news: News, now: Now) -> Deeds:
        """Handle a search's result, a search that is due, or the end of the wait for other routers."""
        match news:
            case Begin(question, 0):
                return [Find(question, self._logbook.log(), Look())]
            case Begin(question, commits):
                view.hear(Begin(question, commits - 1))
            case Over(round_):
                self._give_up(view, round_, now)
            case Searched(question, look, found, error):
                if found is not None:
                    return self._conclude(view, question, found, look, now)
                self._done(view, question, _damaged(question, DAMAGED, error), now)
        return []

    def _begin(self, view: View, question: Question, now: Now) -> Deeds:
        if self._open >= WAITING_MAX:
            return self._answer(view, question.link, question.mark, _error(question, BUSY), now)
        self._open += 1
        if question.asker is not None:
            self._asking.add(question.asker)
        if view.router.rejections.write_naming(question.prefix.fits, question.asker, now):
            view.hear(Begin(question, 1))
            return []
        return [Find(question, self._logbook.log(), Look())]

    def _answer(self, view: View, link: int, mark: int | None, text: bytes, now: Now) -> Deeds:
        view.router.answer(link, numbered(mark, text), now)
        return []

    def _done(self, view: View, question: Question, text: bytes, now: Now) -> None:
        self._open -= 1
        if question.asker is not None:
            self._asking.discard(question.asker)
        self._answer(view, question.link, question.mark, text, now)

    # -- concluding ------------------------------------------------------------------------------------------

    def _conclude(self, view: View, question: Question, found: FoundEvents, look: Look, now: Now) -> Deeds:
        if look.held is None and (prefix := unaccepted(found, question.prefix)) is not None:
            try:
                records = view.store.records.accepted(prefix, _log_of(view), CANDIDATES_MAX + 1)
            except StoreError as error:
                self._done(view, question, _damaged(question, STORE_DAMAGED, error), now)
                return []
            if len(records) == 1:
                return [Find(question, self._logbook.log(), replace(look, held=records[0]))]
            found = offered(found, records)
        trace, asker = found.trace, question.asker
        if trace is not None and asker is not None:
            trace = may_hear(trace, asker.hex(), _formers(view, asker))
        if trace is None:
            not_yours = NOT_YOURS if question.neighbour else NOT_THE_SERVICE_S
            text = _error(question, not_yours) if asker else _json(not_one(question.typed, found))
            self._done(view, question, text, now)
            return []
        try:
            prospect_of = partial(self._prospect, view, now, trace)
            whole = fate(trace, prospect_of, now.wall_ns, self._ttl_s_max, _carrier(view.router))
        except MISREAD as error:
            self._done(view, question, _damaged(question, DAMAGED, error), now)
            return []
        if whole is not None:
            # These deliveries may have ended since the log was taken.
            gone = frozenset(
                (trace.accepted[-1].seq, row.recipient) for row in whole.recipients if row.state == UNACCOUNTED
            )
            if gone - look.gone and look.number < LOOKS_MAX:
                return [Find(question, self._logbook.log(), replace(look, number=look.number + 1, gone=gone))]
            whole = changing(whole, {key for _, key in gone - look.gone})
        round_ = Round(question, found, trace, whole)
        if whole is not None and question.depth:
            self._ask_further(view, round_, whole, now)
        if round_.missing:
            return [Remind(Over(round_), PATIENCE_S * (1 + question.depth))]
        self._tell(view, round_, now)
        return []

    def _prospect(self, view: View, now: Now, trace: Trace, recipient: str, first: int, index: int) -> Prospect:
        router = view.router
        key = router.directory.successors.newest(bytes.fromhex(recipient))
        link, queue = router.links.to(key), router.queues.by_recipient.get(key)
        neighbour = router.directory.neighbours.get(key)
        flights = link.flights if link is not None else ()
        retry_at = 0.0
        if queue is not None:
            retry_at = queue.retry_at or queue.held.retry_at(trace.stream)
        return Prospect(
            name=router.directory.name_of(key),
            is_owed=view.store.owes(key, first, index),
            is_connected=link is not None,
            in_flight=any(
                one.parcel is not None and one.parcel.first == first and one.start <= index < one.stop
                for one in flights
            ),
            retry_s=max(0.0, retry_at - now.mono_s) if retry_at else None,
            ahead=queue.total.messages if queue is not None else 0,
            is_dialled=neighbour is not None and bool(neighbour.urls) and not neighbour.blocked,
            is_blocked=router.directory.is_blocked(key),
            problem=self._problems().get(key, ""),
        )

    # -- asking further --------------------------------------------------------------------------------------

    def _ask_further(self, view: View, round_: Round, whole: Fate, now: Now) -> None:
        """Ask the routers that took custody, at most `ASKED_MAX`; the rest are reported as not asked. A router that has
        already been asked about this message is not asked again: its answer serves both questions."""
        inquiry = Inquiry(WHY, f"{whole.message} {round_.question.depth - 1}")
        keys = [row.recipient for row in whole.recipients if row.state == "acked"]
        for key in keys[:ASKED_MAX]:
            asked = _newest(view, key)
            waiting = self._awaited.get((asked, whole.message))
            if waiting is not None or view.router.ask(bytes.fromhex(asked), inquiry, now):
                round_.missing.add(key)
                self._awaited.setdefault((asked, whole.message), set()).add(round_)
            else:
                round_.reports[key] = NeighbourReport(whole.message, problem=NOT_CONNECTED)
        round_.reports |= dict.fromkeys(keys[ASKED_MAX:], NeighbourReport(whole.message, problem=NOT_ASKED))

    def _give_up(self, view: View, round_: Round, now: Now) -> None:
        """Answer without the routers that have not reported yet."""
        if round_.is_told:
            return
        message = round_.trace.identity.hex()
        for key in round_.missing:
            self._forget(round_, _newest(view, key), message)
            round_.reports[key] = NeighbourReport(message, problem=NO_ANSWER)
        self._tell(view, round_, now)

    def _forget(self, round_: Round, key: str, message: str) -> None:
        """Wait no longer for this router's report, unless another question does."""
        waiting = self._awaited.get((key, message), set())
        waiting.discard(round_)
        if not waiting:
            self._awaited.pop((key, message), None)

    def _tell(self, view: View, round_: Round, now: Now) -> None:
        round_.is_told = True
        asker, trace = round_.question.neighbour, round_.trace
        try:
            if asker is None:
                answer = one(round_.found, trace, round_.whole, round_.reports)
                names = _names(answer, partial(_name_of, view), self._known_keys())
                said = sealed_json(view.store.message(trace.identity)) if answer["kind"] == "unicast" else {}
                text = _json(answer | said | _not_owed(view.router, round_.whole) | {"names": names})
            else:
                text = encode_report(report(round_.whole, trace, asker.hex(), round_.reports, _formers(view, asker)))
        except MISREAD as error:
            text = _error(round_.question, f"{DAMAGED}: {error}")
        self._done(view, round_.question, text, now)


def _carrier(router: Router) -> Carrier | None:
    key, neighbours = router.directory.with_role(Role.OVERLAY), router.directory.neighbours
    if key is None:
        return None
    return Carrier(key.hex(), router.groups.fanning == key, lambda one: bytes.fromhex(one) in neighbours)


def _newest(view: View, key: str) -> str:
    """Return the key that has the place of this one now: a log names each by the key that it had."""
    return view.router.directory.successors.newest(bytes.fromhex(key)).hex()


def _formers(view: View, key: bytes) -> list[str]:
    """Return the keys that this one has followed."""
    return [one.hex() for one in view.router.directory.successors.formers(key)]


def _name_of(view: View, key: bytes) -> str:
    """Return the name of a neighbour, also by a key that it had before."""
    directory = view.router.directory
    return directory.name_of(key) or directory.name_of(directory.successors.newest(key))


def _names(answer: dict[str, Any], name_of: Callable[[bytes], str], known: Mapping[bytes, str]) -> dict[str, str]:
    """Return the names that this node has for the keys in an answer."""
    keys = [answer.get("brought_by"), answer.get("destination"), *(one["recipient"] for one in answer["recipients"])]
    found = {key: name_of(bytes.fromhex(key)) or known.get(bytes.fromhex(key), "") for key in keys if key}
    return {key: name for key, name in found.items() if name}


def _not_owed(router: Router, whole: Fate | None) -> dict[str, Any]:
    """Return the LAN neighbours that share the group of a multicast and were not owed it, if there are any."""
    if whole is None or whole.destination is not None or not whole.brought_by:
        return {}
    owed = {bytes.fromhex(row.recipient) for row in whole.recipients}
    group, by = bytes.fromhex(whole.signer), bytes.fromhex(whole.brought_by)
    rows = [
        {"neighbour": key.hex(), "why": cause}
        for key, cause in lan_not_owed(router.directory, router.groups, group, by, owed)
    ]
    return {"not_owed": rows} if rows else {}


def changing(whole: Fate, keys: set[str]) -> Fate:
    """Return the fate with the states of these recipients as unknown, because they are changing."""
    rows = (replace(row, state="unknown", next=CHANGING) if row.recipient in keys else row for row in whole.recipients)
    return replace(whole, recipients=tuple(rows)) if keys else whole


def _error(question: Question, text: str) -> bytes:
    if question.neighbour is None:
        return _json({"error": text})
    return encode_report(NeighbourReport(question.prefix.head.hex(), problem=text))


def _damaged(question: Question, what: str, error: Exception | None) -> bytes:
    """Return an error answer; to a neighbour, without the place of the damage on this disk."""
    return _error(question, what if question.neighbour else f"{what}: {error}")


def _json(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer).encode()


def _log_of(view: View) -> bytes:
    """Return the key by which this node's log is called: its first one."""
    directory = view.router.directory
    return directory.successors.first(bytes(directory.me))
