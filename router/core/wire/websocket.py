"""The frames of a WebSocket that carries a stream: binary messages, cut anywhere (R-A10); wsproto reads them, no I/O.

wsproto hands out parts of a frame as they come, so neither the length of a frame nor that of a message is a limit; it
checks masks, control frames and reserved bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, Pong
from wsproto.frame_protocol import CloseReason

from .text import clean

PIECE_BYTES = 1 << 18
"""Bytes in one frame of a client at most: it is masked as a whole."""
FRAME_BYTES_LEAST = 128
"""What a frame counts at least, however short it is: to read it costs that much."""
FRAMES_LEAST = 16
"""Frames that one read takes in any case."""
SHORT_MAX = 64
"""Short frames after which a read ends: they take half a millisecond, and others are to have their turn."""
REASON_BYTES_MAX = 120
"""Bytes of a reason in a closing frame; the protocol allows 123."""
_CLEAN = (CloseReason.NORMAL_CLOSURE, CloseReason.GOING_AWAY, CloseReason.NO_STATUS_RCVD)

Part = bytes | memoryview


class FramesBroken(Exception):
    """The WebSocket is over without a clean end; the text says why. `answer`: the bytes that tell the peer so."""

    def __init__(self, text: str, answer: bytes = b"") -> None:
        super().__init__(text)
        self.answer = answer


class WebSocketFrames:
    """One end of a WebSocket after its upgrade: bytes of the wire in, bytes of the stream out, and the other way round.

    `ended`: the peer has closed it; `waiting`: `read` may have more without further bytes of the wire; `barren`: frames
    without data that came; `short`: frames of fewer than `FRAME_BYTES_LEAST` bytes, and such parts of others;
    `received_bytes`: what came, with each of these counted as so many bytes."""

    __slots__ = (
        "_control", "_failure", "_is_client", "_left", "_ws", "barren", "ended", "received_bytes", "short", "waiting",
    )  # fmt: skip

    def __init__(self, *, is_client: bool, first: bytes = b"") -> None:
        kind = ConnectionType.CLIENT if is_client else ConnectionType.SERVER
        self._ws = Connection(kind, trailing_data=first)
        self._is_client = is_client
        self._left = b""
        self._control = b""
        self._failure: FramesBroken | None = None
        self.ended = False
        self.waiting = bool(first)
        self.barren = self.short = self.received_bytes = 0

    def __repr__(self) -> str:
        return f"<frames of a {'client' if self._is_client else 'server'}: {'ended' if self.ended else 'open'}>"

    def receive(self, data: bytes) -> None:
        """Take bytes of the wire; only when `read` has nothing more to give, and the peer has not closed."""
        self._ws.receive_data(data)
        self.waiting = True

    def read(self, max_bytes: int) -> bytes:
        """Return bytes of the stream, at most `max_bytes`; `b""` while `waiting` when there were only frames without
        data, and else when more of the wire is needed, or at the end. Raises `FramesBroken`."""
        if not self._left:
            if self._failure is not None:
                raise self._failure
            self._left = self._take(max_bytes) if self.waiting else b""
        data, self._left = self._left[:max_bytes], self._left[max_bytes:]
        return data

    def _take(self, max_bytes: int) -> bytes:
        """Return the data of so many frames as fill a read if they are short; an error comes after what came before
        it."""
        most = max(FRAMES_LEAST, max_bytes // FRAME_BYTES_LEAST)
        short_max = self.short + SHORT_MAX
        chunks: list[bytes | bytearray] = []
        is_all = True
        try:
            for count, event in enumerate(self._ws.events(), 1):
                chunks.append(self._data_of(event))
                if count == most or self.short == short_max:
                    is_all = False
                    break
        except FramesBroken as error:
            self._failure = error
            if not any(chunks):
                raise
        self.waiting = not is_all and not self.ended and self._failure is None
        return b"".join(chunks)

    def _data_of(self, event: Event) -> bytes | bytearray:
        size = 0
        data: bytes | bytearray = b""
        match event:
            case BytesMessage():
                data = event.data
                size = len(data)
            case Ping():
                if self._ws.state is ConnectionState.OPEN:
                    self._control += self._ws.send(event.response())
            case Pong():
                pass
            case CloseConnection():
                self._close(event)
            case _:
                raise self._broken(
                    CloseReason.UNSUPPORTED_DATA, "a text message came, and a link is carried in binary messages"
                )
        self.received_bytes += max(size, FRAME_BYTES_LEAST)
        self.short += size < FRAME_BYTES_LEAST
        self.barren += not size
        return data

    def _close(self, event: CloseConnection) -> None:
        """End what the peer has closed; wsproto says in the same way that the peer broke the protocol."""
        reason = clean(event.reason or "", REASON_BYTES_MAX)
        if self._ws.state is ConnectionState.OPEN:
            raise self._broken(event.code, f"the peer breaks the protocol: {reason}; its program is at fault")
        if self._ws.state is ConnectionState.REMOTE_CLOSING:
            self._control += self._ws.send(event.response())
        if event.code not in _CLEAN:
            raise FramesBroken(f"the peer ended the WebSocket with status {int(event.code)}: {reason or 'no reason'}")
        self.ended = True

    def _broken(self, code: int, text: str) -> FramesBroken:
        return FramesBroken(f"WebSocket: {text}", self.goodbye(code, text))

    def control(self) -> bytes:
        """Return the answers to the peer's pings and to its closing, which it gets between two frames."""
        data, self._control = self._control, b""
        return data

    def frames(self, parts: Sequence[Part]) -> list[Part]:
        """Return the buffers that carry these as binary messages. A server's need no copy."""
        size = sum(map(len, parts))
        if not size:
            return []
        if not self._is_client:
            return [_head(size), *parts]
        whole = b"".join(parts)
        return [self._ws.send(BytesMessage(data=whole[at : at + PIECE_BYTES])) for at in range(0, size, PIECE_BYTES)]

    def goodbye(self, code: int = CloseReason.NORMAL_CLOSURE, text: str = "") -> bytes:
        """Return the closing frame, `b""` if one end has closed already."""
        if self._ws.state is not ConnectionState.OPEN:
            return b""
        return self._ws.send(CloseConnection(code=code, reason=clean(text, REASON_BYTES_MAX) or None))


def _head(size: int) -> bytes:
    """Return the head of a server's binary message, which is not masked."""
    if size < 126:
        return bytes((0x82, size))
    if size < 1 << 16:
        return b"\x82\x7e" + size.to_bytes(2, "big")
    return b"\x82\x7f" + size.to_bytes(8, "big")
