"""The HTTP request that makes a connection a WebSocket, and its answer (RFC 6455, section 4), without I/O: h11 reads.

wsproto's own handshake is not used: it loses bytes that come behind the request, and reads headers as ASCII.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import NamedTuple

import h11

from .text import clean

SUBPROTOCOL = "upsycle.1"
"""The subprotocol of a link: its stream in binary messages, cut anywhere (R-A10)."""
VERSION = "13"
KEY_BYTES = 16
"""Bytes of a client's nonce."""
HEAD_BYTES_MAX = 1 << 14
"""Bytes of the head of a request or an answer at most."""
ANSWER_BYTES_MAX = 4 * HEAD_BYTES_MAX
"""Bytes that a dialled server may send at most until it has answered, with what it says before that."""
SAID_BYTES_MAX = 200
"""Bytes that are shown of what somebody says who speaks no WebSocket."""
CLOSED = "it closed the connection without an answer"
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_PHRASES = {
    400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 414: "URI Too Long", 426: "Upgrade Required",
    431: "Request Header Fields Too Large", 501: "Not Implemented", 505: "HTTP Version Not Supported",
}  # fmt: skip


class Denial(NamedTuple):
    """Why a request makes no WebSocket: the status of the answer, a sentence, and further headers."""

    status: int
    text: str
    headers: tuple[tuple[str, str], ...] = ()


class UpgradeAnswer(NamedTuple):
    """The end of an upgrade: bytes to send, why it failed ("" if it did not), and the bytes that came behind it."""

    data: bytes
    refused: str = ""
    first: bytes = b""


# -- judging a request -------------------------------------------------------------------------------------


def denial_of(request: h11.Request) -> Denial | None:
    """Return why a request makes no WebSocket of a link, None if it does. Its path is for the caller to judge."""
    return next((found for rule in _RULES if (found := rule(request)) is not None), None)


def accepted(request: h11.Request) -> h11.InformationalResponse:
    """Return the answer to a request that `denial_of` lets pass."""
    headers = [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Accept", accept_key(_values(request, b"sec-websocket-key")[0])),
        ("Sec-WebSocket-Protocol", SUBPROTOCOL),
    ]
    return h11.InformationalResponse(status_code=101, headers=headers, reason="Switching Protocols")


def accept_key(key: bytes) -> str:
    """Return what a server answers to a client's `Sec-WebSocket-Key`."""
    return base64.b64encode(hashlib.sha1(key + _GUID).digest()).decode()


def _values(message: h11.Request | h11.InformationalResponse, name: bytes) -> list[bytes]:
    return [value for found, value in message.headers if found == name]


def _tokens(request: h11.Request, name: bytes) -> list[bytes]:
    """Return the words of a header that is a list, which may be spread over several lines."""
    return [one.strip() for value in _values(request, name) for one in value.split(b",")]


def _other_version(request: h11.Request) -> Denial | None:
    if request.http_version == b"1.1":
        return None
    said = clean(request.http_version.decode("latin-1"), 8)
    return Denial(505, f"a WebSocket begins with HTTP/1.1, and the request is of HTTP/{said}")


def _two_lengths(request: h11.Request) -> Denial | None:
    if not (_values(request, b"content-length") and _values(request, b"transfer-encoding")):
        return None
    return Denial(
        400, "the request has both Content-Length and Transfer-Encoding, so programs read its end differently"
    )


def _other_method(request: h11.Request) -> Denial | None:
    if request.method == b"GET":
        return None
    return Denial(405, "a WebSocket begins with GET", (("Allow", "GET"),))


def _no_upgrade(request: h11.Request) -> Denial | None:
    upgrades = [one.lower() for one in _tokens(request, b"upgrade")]
    if b"websocket" in upgrades and b"upgrade" in [one.lower() for one in _tokens(request, b"connection")]:
        return None
    said = "this is the link of a key-addressed router, which programs open as a WebSocket; there is no page here"
    return Denial(426, said, (("Upgrade", "websocket"),))


def _body(request: h11.Request) -> Denial | None:
    if not _values(request, b"transfer-encoding") and _values(request, b"content-length") in ([], [b"0"]):
        return None
    return Denial(400, "a WebSocket begins with a request that has no body")


def _other_web_socket(request: h11.Request) -> Denial | None:
    if _values(request, b"sec-websocket-version") == [VERSION.encode()]:
        return None
    said = f"this link speaks version {VERSION} of WebSocket alone"
    return Denial(426, said, (("Upgrade", "websocket"), ("Sec-WebSocket-Version", VERSION)))


def _no_key(request: h11.Request) -> Denial | None:
    try:
        (key,) = _values(request, b"sec-websocket-key")
        if len(base64.b64decode(key, validate=True)) == KEY_BYTES:
            return None
    except ValueError:
        pass
    return Denial(400, f"the header Sec-WebSocket-Key is not once {KEY_BYTES} bytes in base64")


def _other_subprotocol(request: h11.Request) -> Denial | None:
    if SUBPROTOCOL.encode() in _tokens(request, b"sec-websocket-protocol"):
        return None
    return Denial(400, f"this link speaks the subprotocol {SUBPROTOCOL} alone, which Sec-WebSocket-Protocol must offer")


_RULES: tuple[Callable[[h11.Request], Denial | None], ...] = (
    _other_version,
    _two_lengths,
    _other_method,
    _no_upgrade,
    _body,
    _other_web_socket,
    _no_key,
    _other_subprotocol,
)


# -- both ends ---------------------------------------------------------------------------------------------


class UpgradeReader:
    """Reads the request of a client that dials a link at `path`, and answers it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)

    def __repr__(self) -> str:
        return f"<reader of an upgrade at {self._path}>"

    def receive(self, data: bytes) -> UpgradeAnswer | None:
        """Take bytes, `b""` at the end of the connection; return the answer as soon as there is one."""
        try:
            self._http.receive_data(data)
            event = self._http.next_event()
        except h11.RemoteProtocolError as error:
            if not data:
                return UpgradeAnswer(b"", "it closed the connection before its request was whole")
            return self._denied(Denial(error.error_status_hint, f"that is no request of HTTP/1.1: {error}"))
        if isinstance(event, h11.Request):
            return self._judged(event)
        return None if data else UpgradeAnswer(b"", "it closed the connection without a request")

    def _judged(self, request: h11.Request) -> UpgradeAnswer:
        denial = denial_of(request)
        if request.target.partition(b"?")[0] != self._path.encode():
            denial = Denial(404, f"there is nothing at this path; the link is at {self._path}")
        if denial is not None:
            return self._denied(denial, has_body=request.method != b"HEAD")
        answer = self._http.send(accepted(request)) or b""
        while self._http.next_event() not in (h11.PAUSED, h11.NEED_DATA):
            pass
        return UpgradeAnswer(answer, "", bytes(self._http.trailing_data[0]))

    def _denied(self, denial: Denial, *, has_body: bool = True) -> UpgradeAnswer:
        text = clean(denial.text, SAID_BYTES_MAX)
        body = f"{text}\n".encode()
        headers = [
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
            *denial.headers,
        ]
        reason = _PHRASES.get(denial.status, "")
        head = self._http.send(h11.Response(status_code=denial.status, headers=headers, reason=reason))
        return UpgradeAnswer((head or b"") + (body if has_body else b""), text)


class UpgradeAsker:
    """Asks a server for a WebSocket at `path`; `nonce`: `KEY_BYTES` random bytes."""

    def __init__(self, host: str, path: str, nonce: bytes) -> None:
        key = base64.b64encode(nonce)
        self._expected = accept_key(key).encode()
        self._received = 0
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)
        headers = [
            ("Host", host),
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Version", VERSION),
            ("Sec-WebSocket-Key", key.decode()),
            ("Sec-WebSocket-Protocol", SUBPROTOCOL),
        ]
        request = self._http.send(h11.Request(method="GET", target=path, headers=headers))
        self.request = (request or b"") + (self._http.send(h11.EndOfMessage()) or b"")

    def receive(self, data: bytes) -> UpgradeAnswer | None:
        """Take bytes, `b""` at the end of the connection; return the result as soon as there is one."""
        self._received += len(data)
        if self._received > ANSWER_BYTES_MAX:
            return UpgradeAnswer(b"", f"it does not answer within {ANSWER_BYTES_MAX} bytes")
        try:
            self._http.receive_data(data)
            while (event := self._http.next_event()) is not h11.NEED_DATA:
                if isinstance(event, h11.Response):
                    return self._refusal(event)
                if not isinstance(event, h11.InformationalResponse):
                    return UpgradeAnswer(b"", CLOSED)
                if event.status_code == 101:
                    return self._switched(event)
        except h11.RemoteProtocolError as error:
            said = f"it does not speak HTTP/1.1: {clean(str(error), SAID_BYTES_MAX)}"
            return UpgradeAnswer(b"", said if data else CLOSED)
        return None

    def _switched(self, answer: h11.InformationalResponse) -> UpgradeAnswer:
        if _values(answer, b"sec-websocket-accept") != [self._expected]:
            return UpgradeAnswer(b"", "it is no WebSocket: its answer does not fit the question")
        if _values(answer, b"sec-websocket-protocol") != [SUBPROTOCOL.encode()]:
            return UpgradeAnswer(b"", f"it is no link of a router: it does not speak the subprotocol {SUBPROTOCOL}")
        if _values(answer, b"sec-websocket-extensions"):
            return UpgradeAnswer(b"", "it uses an extension of WebSocket that it was not offered")
        return UpgradeAnswer(b"", "", bytes(self._http.trailing_data[0]))

    def _refusal(self, answer: h11.Response) -> UpgradeAnswer:
        """Return in words what a server answered that opens no WebSocket, with the first line that it says if that is
        plain text."""
        found = dict(answer.headers)
        said = b""
        if found.get(b"content-type", b"").startswith(b"text/plain"):
            while len(said) < SAID_BYTES_MAX and isinstance(event := self._http.next_event(), h11.Data):
                said += bytes(event.data)
        line = clean(said.decode(errors="replace").partition("\n")[0], SAID_BYTES_MAX)
        to = clean(found.get(b"location", b"").decode(errors="replace"), SAID_BYTES_MAX)
        told = "".join((f" ({line})" if line else "", f", and leads to {to}" if to else ""))
        return UpgradeAnswer(b"", f"it answers {answer.status_code}{told}; is the path right, and is a router there?")
