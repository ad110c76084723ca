"""One connection of HTTP/1.1, without I/O: bytes in, whole requests out, answers as bytes; h11 does the grammar."""

from __future__ import annotations

from functools import lru_cache

import h11

from router.core.wire.upgrade import accepted

from .limits import PIECE_BYTES_LEAST, PIECES_LEAST, READ_AHEAD_BYTES_MAX, REPEAT_BYTES_MAX, HttpLimits
from .request import PHRASES, Answer, Flow, refusal, shown

TLS_HANDSHAKE = b"\x16"
"""The first byte of a client that speaks TLS."""
HEADS_MAX = 256
"""Heads of answers that are kept as they were made, since most are alike."""
_BODILESS = (204, 304)
_SECRET = frozenset((b"authorization", b"proxy-authorization", b"cookie"))


class HttpRefused(Exception):
    """The request cannot be served, and nothing that follows on this connection: `answer` says why."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.reason)
        self.answer = answer


def _refused(status: int, reason: str, text: str) -> HttpRefused:
    return HttpRefused(refusal(status, reason, text, is_last=True))


class HttpConnection:
    """The state of one connection. A request is answered before the next one is read.

    h11 reads requests; a whole answer behind which the connection goes on is written without it, since h11 takes as
    long for that as for reading. A request that is to the byte the one before it, as of programs that ask again and
    again, is not read anew; where h11 is needed after all, it is told of it first (`_catch_up`)."""

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._http = self._reader()
        self._head: h11.Request | None = None
        self._body = bytearray()
        self._pieces = 0
        self._has_body = self._goes_on = False
        self._has_begun = False
        self._is_last = False
        self._is_waiting = False
        self._chunk = b""  # what came while nothing else was here
        self._before: tuple[bytes, h11.Request] | None = None  # the request that may be repeated
        self._is_repeat = False
        self.is_flow = False

    def _reader(self) -> h11.Connection:
        return h11.Connection(h11.SERVER, max_incomplete_event_size=self._limits.head_bytes_max)

    def __repr__(self) -> str:
        return f"<connection: {self._http.our_state}, the client {self._http.their_state}>"

    # -- reading -------------------------------------------------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        """Whether a request waits for its answer, or for the end of it."""
        return self._is_waiting

    @property
    def stage(self) -> str:
        """Return what comes next: the rest of a head or a body, the answer ("waiting"), or another request ("idle")."""
        if self._is_waiting:
            return "waiting"
        if self._head is not None:
            return "body"
        return "head" if self._has_begun else "idle"

    @property
    def has_begun(self) -> bool:
        """Whether a part of the next request has come."""
        return self._has_begun

    def receive(self, data: bytes) -> None:
        """Take bytes of the client. Raises `HttpRefused`."""
        if not self._has_begun and data.startswith(TLS_HANDSHAKE):
            said = "this port speaks HTTP without TLS: open it by http://, or give it a certificate and key in its URL"
            raise _refused(400, "tls-here", said)
        if not self._has_begun and self._before is not None and data == self._before[0]:
            self._head, self._has_begun, self._is_repeat = self._before[1], True, True
            return
        self._catch_up()
        self._chunk = b"" if self._has_begun else data
        self._has_begun = self._has_begun or bool(data)
        if self._is_waiting and len(self._http.trailing_data[0]) + len(data) > READ_AHEAD_BYTES_MAX:
            said = f"more than {READ_AHEAD_BYTES_MAX} bytes of further requests came before this one was answered"
            raise _refused(400, "read-ahead", said)
        try:
            self._http.receive_data(data)
        except h11.RemoteProtocolError as error:
            raise _misread(error, self._limits) from None

    def next_request(self) -> tuple[h11.Request, bytes | None] | None:
        """Return the next whole request, head and body; before that its head alone, with None, if a body is to follow.
        Return None while more is needed, or one waits for its answer. Raises `HttpRefused`."""
        if self._is_waiting:
            return None
        if self._is_repeat:
            assert self._head is not None
            self._is_waiting = True
            return self._head, b""
        try:
            while not isinstance(event := self._http.next_event(), h11.EndOfMessage):
                if isinstance(event, h11.Request):
                    if self._begin(event):
                        return event, None
                elif isinstance(event, h11.Data):
                    self._extend(bytes(event.data))
                else:
                    return None
        except h11.RemoteProtocolError as error:
            raise _misread(error, self._limits) from None
        assert self._head is not None
        self._is_waiting = True
        self._keep_for_repeats(self._head)
        return self._head, bytes(self._body)

    def _keep_for_repeats(self, head: h11.Request) -> None:
        """Remember a request without a body that came alone and in one piece; but none that bears a secret."""
        chunk, self._chunk = self._chunk, b""
        is_alone = chunk.endswith(b"\r\n\r\n") and not self._has_body and not self._http.trailing_data[0]
        is_plain = b"?" not in head.target and _SECRET.isdisjoint(name for name, _ in head.headers)
        is_short = len(chunk) <= REPEAT_BYTES_MAX
        self._before = (chunk, head) if is_alone and is_plain and is_short else None

    def remembers(self, head: h11.Request) -> bool:
        """Whether this request may be repeated."""
        return self._before is not None and self._before[1] is head

    def _catch_up(self) -> None:
        """Let h11 read the repeated request, as what follows is its business."""
        if self._is_repeat and self._before is not None:
            self._is_repeat = False
            self._http.receive_data(self._before[0])
            while self._is_waiting and not isinstance(self._http.next_event(), h11.EndOfMessage):
                pass

    def _begin(self, head: h11.Request) -> bool:
        """Take the head of a request; return whether a body is to follow."""
        self._head, self._body, self._pieces = head, bytearray(), 0
        headers = list(head.headers)
        names = [name for name, _ in headers]
        if sum([len(name) + len(value) for name, value in headers]) + len(head.target) > self._limits.head_bytes_max:
            raise _head_too_large(self._limits)
        if head.http_version != b"1.1":
            raise _refused(505, "version", "this node speaks HTTP/1.1 alone")
        if b"content-length" in names and b"transfer-encoding" in names:
            said = "the request has both Content-Length and Transfer-Encoding, so programs read its end differently"
            raise _refused(400, "two-lengths", said)
        length = next((int(value) for name, value in headers if name == b"content-length"), 0)
        if length > self._limits.body_bytes_max:
            raise self._too_large()
        self._has_body = length > 0 or b"transfer-encoding" in names
        self._goes_on = all(value.lower() == b"keep-alive" for name, value in headers if name == b"connection")
        return self._has_body

    def _extend(self, data: bytes) -> None:
        self._body += data
        self._pieces += 1
        if len(self._body) > self._limits.body_bytes_max:
            raise self._too_large()
        if self._pieces > PIECES_LEAST and len(self._body) < self._pieces * PIECE_BYTES_LEAST:
            said = f"the body comes in {self._pieces} pieces of fewer than {PIECE_BYTES_LEAST} bytes on average"
            raise _refused(400, "small-pieces", f"{said}; send larger ones")

    def _too_large(self) -> HttpRefused:
        said = f"a body may have {self._limits.body_bytes_max} bytes here (the setting body_bytes_max)"
        return _refused(413, "body-too-large", said)

    def receive_end(self) -> None:
        """Take it that the client says no more. What it has asked may still be answered. Raises `HttpRefused` if it has
        asked for a part of something."""
        self._catch_up()
        self._http.receive_data(b"")
        if self._has_begun and not self._is_waiting:
            raise _refused(400, "cut-short", "the connection was closed before the request was whole")

    def close_after_this(self) -> None:
        """Close the connection with the next answer."""
        self._is_last = True

    def go_on(self) -> bytes:
        """Return the word that a client waits for before it sends its body, b"" if it does not."""
        if self.stage != "body" or not self._http.they_are_waiting_for_100_continue:
            return b""
        return self._sent(h11.InformationalResponse(status_code=100, headers=[], reason="Continue"))

    # -- answering -----------------------------------------------------------------------------------------

    def answer(self, answer: Answer) -> bytes:
        """Return the bytes of an answer; b"" if there can be none any more."""
        is_whole = self._is_waiting
        has_body = bool(answer.body) and answer.status not in _BODILESS
        headers = answer.all_headers()
        if answer.status not in _BODILESS:
            headers.append(("Content-Length", str(len(answer.body))))
        is_last = answer.is_last or self._is_last or not is_whole
        if is_last:
            headers.append(("Connection", "close"))
        try:
            head, raw = _head(answer.status, tuple(headers))
            if self._goes_on and not is_last:
                out = raw + answer.body if has_body and not self._is_head_only else raw
                self._go_on_reading()
                return out
            self._catch_up()
            out = self._sent(head)
            if has_body and not self._is_head_only:
                out += self._sent(h11.Data(data=answer.body))
            out += self._sent(h11.EndOfMessage())
        except h11.LocalProtocolError:
            self.is_flow = False
            return b""
        self._turn()
        return out

    def _go_on_reading(self) -> None:
        """Begin with the next request: h11 anew, which costs less than to tell the old one of the answer."""
        rest, is_ended = (b"", False) if self._is_repeat else self._http.trailing_data
        if not self._is_repeat:
            self._http = self._reader()
        if rest:
            self._http.receive_data(rest)
        if is_ended:
            self._http.receive_data(b"")
        self._is_repeat = self._is_waiting = False
        self._has_begun = bool(rest)
        self._head = None

    def begin_flow(self, flow: Flow) -> bytes:
        """Return the beginning of an answer without an end, whose client may want its head alone."""
        self._catch_up()
        headers = [*Answer(status=200, headers=flow.headers).all_headers(), ("Content-Type", flow.kind)]
        out = self._sent(_head(200, (*headers, ("X-Accel-Buffering", "no")))[0])
        if self._is_head_only:
            out += self._sent(h11.EndOfMessage())
            self._turn()
            return out
        self.is_flow = True
        return out + self.piece(flow.first)

    def piece(self, data: bytes) -> bytes:
        """Return the bytes that carry more of an answer without an end; b"" if there can be none any more."""
        return self._sent(h11.Data(data=data)) if data and self.is_flow else b""

    def end_flow(self) -> bytes:
        """Return the end of such an answer."""
        self.is_flow = False
        out = self._sent(h11.EndOfMessage())
        self._turn()
        return out

    def switch(self, request: h11.Request) -> tuple[bytes, bytes]:
        """Return the answer that makes a WebSocket of this connection, and what came behind the request."""
        self._catch_up()
        out = self._sent(accepted(request))
        while self._http.next_event() not in (h11.PAUSED, h11.NEED_DATA):
            pass
        return out, bytes(self._http.trailing_data[0])

    @property
    def is_over(self) -> bool:
        """Whether nothing more can be asked and answered here."""
        return self._http.our_state in (h11.MUST_CLOSE, h11.CLOSED, h11.ERROR) or (
            self._http.our_state is h11.DONE and self._http.their_state is not h11.DONE
        )

    @property
    def _is_head_only(self) -> bool:
        return self._head is not None and self._head.method == b"HEAD"

    def _turn(self) -> None:
        self._is_waiting = False
        self._head = None
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            self._has_begun = bool(self._http.trailing_data[0])

    def _sent(self, event: h11.Event) -> bytes:
        return self._http.send(event) or b""


def _head(status: int, headers: tuple[tuple[str, str], ...]) -> tuple[h11.Response, bytes]:
    """Return the head of an answer, for h11 and as it is sent."""
    if any(name == "Set-Cookie" for name, _ in headers):
        return _made(status, headers)  # a secret is kept no longer than it is needed
    return _kept(status, headers)


@lru_cache(HEADS_MAX)
def _kept(status: int, headers: tuple[tuple[str, str], ...]) -> tuple[h11.Response, bytes]:
    return _made(status, headers)


def _made(status: int, headers: tuple[tuple[str, str], ...]) -> tuple[h11.Response, bytes]:
    raw = [(name.encode("ascii"), value.encode("latin-1", "replace")) for name, value in headers]
    phrase = PHRASES.get(status, "")
    lines = [f"HTTP/1.1 {status} {phrase}".encode(), *(name + b": " + value for name, value in raw)]
    return h11.Response(status_code=status, headers=raw, reason=phrase), b"\r\n".join(lines) + b"\r\n\r\n"


def _head_too_large(limits: HttpLimits) -> HttpRefused:
    return _refused(431, "head-too-large", f"the head of a request may have {limits.head_bytes_max} bytes here")


def _misread(error: h11.RemoteProtocolError, limits: HttpLimits) -> HttpRefused:
    status = error.error_status_hint
    if status == 431:
        return _head_too_large(limits)
    return _refused(status, "malformed", f"that is no request of HTTP/1.1: {shown(str(error))}")
