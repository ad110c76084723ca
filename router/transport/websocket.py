"""A WebSocket over a socket: its upgrade, and the stream that its binary messages carry (R-A10)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from itertools import count

import trio

from router.core.wire.upgrade import KEY_BYTES, UpgradeAsker, UpgradeReader
from router.core.wire.websocket import FramesBroken, WebSocketFrames
from router.transport.contract import Buffer, StreamBroken
from router.transport.limits import HANDSHAKE_PAUSE_S, HANDSHAKE_READS
from router.transport.pace import Pace
from router.transport.socket_stream import CLOSE_TIMEOUT_S, CONTROL_BYTES_MAX, SocketStream
from router.transport.sockets import NotLetIn
from router.transport.stream import CUT, DuplexStream

UPGRADE_READ_BYTES = 1 << 12
BARREN_PER_S = 8.0
"""Frames without data (pings, pongs, empty ones) that a peer may send in a second."""
BARREN_BURST_S = 32.0
"""Seconds whose share of frames without data may come at once."""
BUSY_ANSWER = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 10\r\n"
    b"Content-Type: text/plain\r\nContent-Length: 49\r\n\r\ntoo many connect at this moment; try again later\n"
)
"""What a client hears that waited in vain for its turn."""
CLOSED = "the peer has closed the WebSocket"


async def answer_upgrade(inner: SocketStream, path: str, where: str) -> WebSocketStream:
    """Answer a client that asks for a WebSocket at `path`; the caller bounds the time. A failure closes the connection,
    after the client was told. Raises `NotLetIn`."""
    return WebSocketStream(inner, where, await _upgraded(inner, UpgradeReader(path)))


async def ask_upgrade(inner: SocketStream, host: str, path: str, where: str) -> WebSocketStream:
    """Ask a server for a WebSocket at `path`; otherwise like `answer_upgrade`."""
    asker = UpgradeAsker(host, path, os.urandom(KEY_BYTES))
    return WebSocketStream(inner, where, await _upgraded(inner, asker, asker.request), is_client=True)


async def _upgraded(inner: SocketStream, end: UpgradeReader | UpgradeAsker, request: bytes = b"") -> bytes:
    """Do one end's part of the upgrade; return the bytes that came behind it."""
    is_done = False
    answer = None
    try:
        await inner.send_all(request)
        for reads in count():
            if (answer := end.receive(await inner.receive_some(UPGRADE_READ_BYTES))) is not None:
                break
            if reads >= HANDSHAKE_READS:
                await trio.sleep(HANDSHAKE_PAUSE_S)
        assert answer is not None
        await inner.send_all(answer.data)
        if answer.refused:
            raise NotLetIn(answer.refused)
        is_done = True
        return answer.first
    except StreamBroken as error:
        raise NotLetIn(f"the connection broke before the upgrade to WebSocket: {error}") from None
    finally:
        if not is_done:
            await inner.aclose()


class WebSocketStream(DuplexStream):
    """The bytes in the binary messages of a WebSocket, which `inner` carries. The link proves keys.

    A frame is sent as a whole; answers to pings go between two, so they wait here while one is being sent."""

    __slots__ = ("_frames", "_goodbye", "_inner", "_is_told", "_outbox", "_pace")

    def __init__(self, inner: SocketStream, where: str, first: bytes = b"", *, is_client: bool = False) -> None:
        super().__init__(where, place=inner.place, ip=inner.ip, path=inner.path)
        self._inner = inner
        self._frames = WebSocketFrames(is_client=is_client, first=first)
        self._pace: Pace | None = None
        self._outbox = b""
        self._goodbye = b""  # that could not leave because something was being sent
        self._is_told = False

    @property
    def received_bytes(self) -> int:
        return max(self._inner.received_bytes, self._frames.received_bytes)

    @property
    def short_pieces(self) -> int:
        return max(self._inner.short_pieces, self._frames.short)

    async def _receive(self, max_bytes: int) -> bytes:
        await trio.lowlevel.checkpoint_if_cancelled()
        has_waited = False
        while not (data := self._read(max_bytes)) and not self._frames.ended:
            if not self._frames.waiting:
                has_waited = True
                wire = await self._inner.receive_some(max_bytes)
                if not wire:
                    raise StreamBroken(CUT)
                self._frames.receive(wire)
        if not has_waited:
            await trio.lowlevel.cancel_shielded_checkpoint()
        return data

    def _read(self, max_bytes: int) -> bytes:
        frames = self._frames
        barren = frames.barren
        try:
            data = frames.read(max_bytes)
        except FramesBroken as error:
            self._tell(error.answer)
            raise StreamBroken(str(error)) from None
        if frames.barren > barren:
            self._bound(frames.barren - barren)
        self._send_soon(frames.control())
        return data

    def _bound(self, barren: int) -> None:
        """Count frames without data, and end a peer that sends too many: they would cost without being charged."""
        self._pace = self._pace or Pace(BARREN_PER_S, BARREN_BURST_S)
        if self._pace.wait_s(barren, trio.current_time()):
            text = "too many frames without data came (pings, pongs, empty ones)"
            self._tell(self._frames.goodbye(1008, text))
            raise StreamBroken(f"WebSocket: {text}; the peer's program is at fault")

    def _tell(self, goodbye: bytes) -> None:
        """Tell the peer why this end closes, as far as possible without waiting."""
        whole = self._frames.control() + goodbye
        if self._sending:
            self._goodbye = whole
        else:
            with suppress(StreamBroken):
                self._send_soon(whole)
        self._is_told = True

    def _send_soon(self, data: bytes) -> None:
        if self._unsendable is not None:
            return
        self._outbox += data
        if self._outbox and not self._sending:
            soon, self._outbox = self._outbox, b""
            self._inner.send_soon(soon)
        if len(self._outbox) > CONTROL_BYTES_MAX:
            raise StreamBroken("the peer sends pings but does not read the pongs")

    async def _send(self, parts: Sequence[Buffer]) -> None:
        if self._frames.ended:
            raise StreamBroken(CLOSED)
        if found := self._frames.frames(parts):
            await self._inner.send_parts(found)
        else:
            await trio.lowlevel.checkpoint()
        while self._outbox:
            soon, self._outbox = self._outbox, b""
            await self._inner.send_all(soon)

    async def _finish(self) -> None:
        with trio.move_on_after(CLOSE_TIMEOUT_S), suppress(StreamBroken):
            if goodbye := self._outbox + self._frames.goodbye():
                await self._inner.send_all(goodbye)
            await self._inner.aclose()

    def _abandon(self) -> None:
        if self._is_told:
            if self._goodbye:  # unless what was being sent was cut
                with suppress(StreamBroken):
                    self._inner.send_soon(self._goodbye)
            self._inner.close_soon()
        self._inner.abandon()
