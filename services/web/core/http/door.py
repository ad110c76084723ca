"""The connections at one door for HTTP: read, answered in turn, and ended when they take too much or too long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from math import inf

import h11
from msgspec import Struct

from router.core.wire.text import counted
from router.service import contract as c

from .callers import Callers, counted_as, ip_of
from .connection import HttpConnection, HttpRefused
from .limits import AT_ONCE_BYTES_MAX, AT_ONCE_MAX, LINGER_BYTES_MAX, LINGER_S, HttpLimits
from .link import LinkPace
from .request import TEXT, Answer, Flow, Later, Link, Reply, Request, as_problem, fields_of, path_of, refusal
from .sites import Sites

Respond = Callable[[Request, c.Now], Reply]
"""Decides what a request is answered."""
Admit = Callable[[Request, c.Now], Answer | None]
"""Returns why a request is refused whatever its body is, which has not come yet."""


class _Client(Struct):
    """A connection. `ip`: its other end; `counts_as`: what it is counted by, "" if it is not; `by_s`: when it is ended
    if its present `stage` lasts; `lingers`: how many bytes are still read, and thrown away, after its last answer;
    `has_ended`: it says no more, and waits for what it has asked.

    `reads_json`: whether the present request wants a refusal in JSON; `origin`: the page from elsewhere that may read
    the answer; `before`: the request before it."""

    http: HttpConnection
    ip: str
    counts_as: str
    by_s: float
    stage: str = "head"
    reads_json: bool = False
    origin: str = ""
    lingers: int = 0
    has_ended: bool = False
    is_over: bool = False
    before: Request | None = None


class HttpDoor:
    """One door. `respond` decides about requests that `sites` lets pass, `admit` beforehand about those with a body."""

    def __init__(
        self, door: str, limits: HttpLimits, sites: Sites, callers: Callers, respond: Respond, admit: Admit
    ) -> None:
        self._door = door
        self._limits = limits
        self._sites = sites
        self._callers = callers
        self._respond = respond
        self._admit = admit
        self._clients: dict[str, _Client] = {}
        self._links = LinkPace()
        self._by_address: Counter[str] = Counter()
        self.answered: Counter[int] = Counter()
        self.refused: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<door {self._door}: {counted(len(self._clients), 'connection')}>"

    def __len__(self) -> int:
        return len(self._clients)

    def __contains__(self, peer: str) -> bool:
        return peer in self._clients

    def may_have_gone(self, peer: str) -> bool:
        """Whether a client has gone, or says no more, which looks the same until something is written to it."""
        return peer not in self._clients or self._clients[peer].has_ended

    # -- hearing -------------------------------------------------------------------------------------------

    def opened(self, peer: str, address: str, now: c.Now) -> Iterator[c.Deed]:
        """Take a connection, unless its address has too many."""
        ip = ip_of(address) if address else ""
        counts_as = "" if self._callers.is_proxy(ip) or not ip else counted_as(ip)
        client = _Client(HttpConnection(self._limits), ip, counts_as, now.mono_s + self._limits.head_s)
        self._clients[peer] = client
        if counts_as:
            self._by_address[counts_as] += 1
            if self._by_address[counts_as] > self._limits.per_address:
                yield from self._turn_away(peer, client, now)

    def _turn_away(self, peer: str, client: _Client, now: c.Now) -> Iterator[c.Deed]:
        said = f"{self._limits.per_address} connections are open from {client.counts_as}, and no more may be"
        answer = refusal(429, "address-full", f"{said}; close some, and ask again", is_last=True)
        self._uncount(client)
        yield from self._refuse(peer, client, answer, now)

    def came(self, peer: str, data: bytes, now: c.Now) -> Iterator[c.Deed]:
        """Hear bytes of a client, b"" if it says no more; answer what is whole."""
        client = self._clients.get(peer)
        if client is None:
            return
        if not data:
            yield from self._hear_end(peer, client)
            return
        if client.is_over:
            yield from self._throw_away(peer, client, len(data))
            return
        try:
            client.http.receive(data)
            yield from self._read(peer, client, now)
        except HttpRefused as found:
            yield from self._refuse(peer, client, found.answer, now)

    def _hear_end(self, peer: str, client: _Client) -> Iterator[c.Deed]:
        """Let a client wait for its answer that says no more, as some shut down their sending side behind a request;
        one that reads without an end has gone."""
        try:
            if not (client.is_over or client.http.is_flow):
                client.http.receive_end()
                if client.http.is_waiting:
                    client.has_ended = True
                    yield c.KeepOpen(self._door, peer)
                    return
        except HttpRefused as found:
            yield from self._write_answer(peer, client, found.answer)
        self._forget(peer)

    def _throw_away(self, peer: str, client: _Client, size: int) -> Iterator[c.Deed]:
        client.lingers -= size
        if client.lingers < 0:
            yield from self._end(peer)

    def _read(self, peer: str, client: _Client, now: c.Now) -> Iterator[c.Deed]:
        """Answer the requests that are whole, one after the other, until one has to wait, or too many or too much came
        at once; then the last answer closes the connection. Raises `HttpRefused`."""
        answered = size = 0
        while peer in self._clients and not client.is_over and (found := client.http.next_request()) is not None:
            head, body = found
            request = self._request_of(peer, client, head, body or b"")
            if body is None:
                if (refused := self._sites.refusal(request) or self._admit(request, now)) is not None:
                    raise HttpRefused(_fitted(client, refused))
                continue
            answered += 1
            if answered == AT_ONCE_MAX or size >= AT_ONCE_BYTES_MAX:
                client.http.close_after_this()
            for deed in self._reply(peer, client, request, now):
                size += len(deed.data) if isinstance(deed, c.Write) else 0
                yield deed
        if peer in self._clients and not client.is_over:
            if client.has_ended and not client.http.is_waiting:
                yield from self._end(peer)
            elif go_on := client.http.go_on():
                yield c.Write(self._door, peer, go_on)
            self._set_deadline(client, now)

    def _set_deadline(self, client: _Client, now: c.Now) -> None:
        """Give each stage of a connection its time; bytes that come within one prolong nothing."""
        stage = client.http.stage
        if stage != client.stage:
            client.stage = stage
            client.by_s = (
                now.mono_s
                + {
                    "head": self._limits.head_s,
                    "body": self._limits.body_s,
                    "idle": self._limits.idle_s,
                    "waiting": inf,
                }[stage]
            )

    def _request_of(self, peer: str, client: _Client, head: h11.Request, body: bytes) -> Request:
        if client.before is not None and client.before.head is head and not body:  # it is repeated
            return client.before
        fields = fields_of(head)
        request = Request(
            door=self._door,
            peer=peer,
            caller=self._callers.caller(client.ip, fields.get(b"x-forwarded-for", "")),
            path=path_of(head.target, self._sites.prefix),
            head=head,
            fields=fields,
            body=body,
        )
        client.reads_json, client.origin = request.accepts("json"), self._sites.allowed(request)
        client.before = request if client.http.remembers(head) else None
        return request

    def _reply(self, peer: str, client: _Client, request: Request, now: c.Now) -> Iterator[c.Deed]:
        reply = self._share_refusal(client, request) or self._sites.refusal(request) or self._respond(request, now)
        match reply:
            case Answer():
                yield from self.answer(peer, reply, now)
            case Later(deeds):
                yield from deeds
            case Flow():
                yield from self._begin_flow(peer, client, reply, now)
            case Link():
                counts_as = client.counts_as
                if counts_as and (refused := self._links.refusal(counts_as, now.mono_s)) is not None:
                    yield from self.answer(peer, refused, now)
                    return
                yield from self._hand_over(peer, client, request)

    def _share_refusal(self, client: _Client, request: Request) -> Answer | None:
        """Count a proxy's connection as one of the caller whose request it carries now; return why it is refused if the
        caller has too many."""
        if not self._callers.is_proxy(client.ip):
            return None
        counts_as = counted_as(request.caller) if request.caller != client.ip else ""
        if counts_as != client.counts_as:
            self._uncount(client)
            client.counts_as = counts_as
            if counts_as:
                self._by_address[counts_as] += 1
        if not counts_as or self._by_address[counts_as] <= self._limits.per_address:
            return None
        self._uncount(client)
        said = f"{self._limits.per_address} connections carry requests of {counts_as}, and no more may"
        return refusal(429, "address-full", f"{said}; end some, and ask again")

    # -- answering -----------------------------------------------------------------------------------------

    def answer(self, peer: str, answer: Answer, now: c.Now) -> Iterator[c.Deed]:
        """Answer the request of this client that waits; do nothing if it has gone."""
        client = self._clients.get(peer)
        if client is None or client.is_over:
            return
        yield from self._write_answer(peer, client, _fitted(client, answer))
        yield from self._turn(peer, client, now)

    def answer_later(self, peer: str, answer: Answer, now: c.Now) -> Iterator[c.Deed]:
        """Answer a request that has waited, and those that have come behind it."""
        yield from self.answer(peer, answer, now)
        yield from self.read_on(peer, now)

    def read_on(self, peer: str, now: c.Now) -> Iterator[c.Deed]:
        """Answer the requests that have come behind one that has waited; do nothing while it waits still."""
        client = self._clients.get(peer)
        if client is not None and not client.is_over:
            try:
                yield from self._read(peer, client, now)
            except HttpRefused as found:
                yield from self._refuse(peer, client, found.answer, now)

    def _refuse(self, peer: str, client: _Client, answer: Answer, now: c.Now) -> Iterator[c.Deed]:
        """Answer what cannot be read on; then read for a while what still comes, since a close would overtake the
        answer."""
        yield from self._write_answer(peer, client, answer)
        client.is_over, client.lingers, client.by_s = True, LINGER_BYTES_MAX, now.mono_s + LINGER_S

    def _write_answer(self, peer: str, client: _Client, answer: Answer) -> Iterator[c.Deed]:
        self.answered[answer.status] += 1
        if answer.reason:
            self.refused[answer.reason] += 1
        if out := client.http.answer(answer):
            yield c.Write(self._door, peer, out)

    def begin_flow(self, peer: str, flow: Flow, now: c.Now) -> Iterator[c.Deed]:
        """Begin an answer without an end to a request that has waited; do nothing if its client has gone."""
        client = self._clients.get(peer)
        if client is not None and not client.is_over:
            yield from self._begin_flow(peer, client, flow, now)

    def _begin_flow(self, peer: str, client: _Client, flow: Flow, now: c.Now) -> Iterator[c.Deed]:
        self.answered[200] += 1
        if flow.is_known:
            yield c.MarkKnown(self._door, peer)
        whole = flow._replace(headers=(*flow.headers, *_cross_origin(client.origin)))
        yield c.Write(self._door, peer, client.http.begin_flow(whole))
        yield from flow.deeds
        if not client.http.is_flow:  # its client wants the head alone
            yield from self._turn(peer, client, now)
        elif client.has_ended:  # when it goes would not be heard
            yield c.Write(self._door, peer, client.http.end_flow())
            yield from self._end(peer)

    def send(self, peer: str, data: bytes) -> Iterator[c.Deed]:
        """Send more of an answer without an end; do nothing if its client has gone."""
        client = self._clients.get(peer)
        if client is not None and client.http.is_flow and (out := client.http.piece(data)):
            yield c.Write(self._door, peer, out)

    def finish(self, peer: str, now: c.Now) -> Iterator[c.Deed]:
        """End an answer without an end after all."""
        client = self._clients.get(peer)
        if client is not None and client.http.is_flow:
            yield c.Write(self._door, peer, client.http.end_flow())
            yield from self._turn(peer, client, now)
            yield from self.read_on(peer, now)

    def _turn(self, peer: str, client: _Client, now: c.Now) -> Iterator[c.Deed]:
        """Wait for the next request, or end the connection if there can be none."""
        client.stage = ""
        self._set_deadline(client, now)
        if client.http.is_over:
            yield from self._end(peer)

    def _hand_over(self, peer: str, client: _Client, request: Request) -> Iterator[c.Deed]:
        self.answered[101] += 1
        out, first = client.http.switch(request.head)
        self._forget(peer)
        yield c.Write(self._door, peer, out)
        yield c.HandOver(self._door, peer, first, "websocket", request.caller if request.caller != client.ip else "")

    # -- ending --------------------------------------------------------------------------------------------

    def overdue(self, now: c.Now) -> Iterator[c.Deed]:
        """End the connections whose clients have taken too long."""
        for peer, client in [(peer, one) for peer, one in self._clients.items() if one.by_s <= now.mono_s]:
            if client.http.has_begun and not client.is_over:
                said = "the request was not whole in time"
                yield from self._write_answer(peer, client, refusal(408, "slow", said, is_last=True))
            yield from self._end(peer)

    def _end(self, peer: str) -> Iterator[c.Deed]:
        self._forget(peer)
        yield c.Write(self._door, peer, b"")

    def _forget(self, peer: str) -> None:
        if (client := self._clients.pop(peer, None)) is not None:
            self._uncount(client)

    def _uncount(self, client: _Client) -> None:
        counts_as, client.counts_as = client.counts_as, ""
        if counts_as:
            self._by_address[counts_as] -= 1
            if not self._by_address[counts_as]:
                del self._by_address[counts_as]


def _fitted(client: _Client, answer: Answer) -> Answer:
    """Return an answer in the form that the client's request wants."""
    whole = as_problem(answer) if answer.reason and client.reads_json and answer.kind == TEXT else answer
    if not client.origin or any(name == "Access-Control-Allow-Origin" for name, _ in whole.headers):
        return whole  # a second one would annul both
    return whole.with_headers(*_cross_origin(client.origin))


def _cross_origin(origin: str) -> tuple[tuple[str, str], ...]:
    """Return the headers that let a page from elsewhere read the answer."""
    return (("Access-Control-Allow-Origin", origin), ("Vary", "Origin")) if origin else ()
