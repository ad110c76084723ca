"""The base of all transports' streams: one task sends, one receives, and a broken stream stays broken."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import trio

from router.core.link.liveness import NO_PATH, PathView
from router.core.wire.crypto import PublicKey
from router.transport.contract import Buffer, StreamBroken

CUT = "the connection was cut: the peer did not say goodbye"


class DuplexStream(ABC):
    """A `router.transport.Stream`; a transport moves its bytes in `_receive`, `_send`, `_finish`, `_abandon`.

    A failed or cancelled send ends sending only: the peer's bytes can still be read. A failed receive ends both.
    """

    __slots__ = (
        "_broken", "_closed", "_on_proven", "_receiving", "_sending", "_unsendable", "ip", "owner", "path", "peer",
        "place", "where",
    )  # fmt: skip

    def __init__(
        self,
        where: str,
        *,
        peer: PublicKey | None = None,
        owner: bool = False,
        place: str = "",
        ip: str = "",
        path: PathView = NO_PATH,
    ) -> None:
        self.where = where
        self.place = place
        self.ip = ip
        self.path = path
        self.peer = peer
        self.owner = owner
        self._broken: str | None = None
        self._unsendable: str | None = None
        self._sending = self._receiving = self._closed = False
        self._on_proven: tuple[Callable[[PublicKey], None], ...] = ()

    def __repr__(self) -> str:
        whom = "" if self.peer is None else f" with {self.peer.hex()[:12]}…"
        return f"<{type(self).__name__} {self.where}{whom}, {self._broken or self._unsendable or 'open'}>"

    @property
    def received_bytes(self) -> int:
        return 0

    @property
    def short_pieces(self) -> int:
        return 0

    def when_proven(self, act: Callable[[PublicKey], None]) -> None:
        """Call `act` with the other end's key once that is proven, which it may be already."""
        if self.peer is not None:
            act(self.peer)
        else:
            self._on_proven += (act,)

    def link_proved(self, key: PublicKey) -> None:
        acts, self._on_proven = self._on_proven, ()
        for act in acts:
            act(key)

    async def receive_some(self, max_bytes: int) -> bytes:
        if self._broken is not None:
            raise StreamBroken(self._broken)
        if self._receiving:
            raise trio.BusyResourceError("another task is receiving on this stream")
        self._receiving = True
        try:
            return await self._receive(max_bytes)
        except StreamBroken as error:
            self._broken = self._broken or str(error)
            raise
        finally:
            self._receiving = False

    async def send_all(self, data: Buffer) -> None:
        await self.send_parts((data,))

    async def send_parts(self, parts: Sequence[Buffer]) -> None:
        """Send the parts in order. Raise `StreamBroken`, also after a send that was cancelled in its midst."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._broken is not None or self._unsendable is not None:
            raise StreamBroken(self._broken or self._unsendable)
        if self._sending:
            raise trio.BusyResourceError("another task is sending on this stream")
        self._sending = True
        try:
            await self._send(parts)
        except StreamBroken as error:
            self._unsendable = str(error)
            raise
        except BaseException:  # Cancelled: some of it may have been sent
            self._unsendable = "a send was cut short"
            raise
        finally:
            self._sending = False

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        clean = self._broken is None and self._unsendable is None and not self._sending
        self._broken = "closed on this side"
        try:
            await trio.lowlevel.checkpoint()
            if clean:
                self._sending = True
                await self._finish()
        finally:
            self._abandon()

    @abstractmethod
    async def _receive(self, max_bytes: int) -> bytes:
        """Return 1 to `max_bytes` bytes, `b""` at a clean end. A checkpoint. Raises `StreamBroken`."""

    @abstractmethod
    async def _send(self, parts: Sequence[Buffer]) -> None:
        """Send all `parts`; other tasks need not run meanwhile, if there is room. Raises `StreamBroken`."""

    @abstractmethod
    async def _finish(self) -> None:
        """Let the peer read a clean end after the last byte. Called once, before `_abandon`."""

    @abstractmethod
    def _abandon(self) -> None:
        """Release everything; without a clean end before, the peer finds the stream broken."""
