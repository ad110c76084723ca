"""Drafts of parcels: messages of one link that will share a parcel, with their positions in the reads."""

from __future__ import annotations

from array import array
from itertools import accumulate, takewhile
from operator import sub

from router.core.wire.lifetime import deadline_s

from .intake import ArrivedMessage
from .parcel import U32, Parcel

PARCEL_MESSAGES_MAX = 1024
PARCEL_BYTES_MAX = 1 << 20


class ParcelDraft:
    """Messages of one link, in order, that share kind, signer, destination, VIA and whether ttl is 0.

    `pieces`: pairs of a read's data and the rows in it that follow each other without a gap.
    """

    __slots__ = ("_data", "_end", "_rows", "count", "pieces", "size", "which")

    def __init__(self, which: object = None) -> None:
        self.which = which
        self.pieces: list[tuple[bytes, list[ArrivedMessage]]] = []
        self.count = 0
        self.size = 0
        self._data, self._end = b"", 0  # of the last piece
        self._rows: list[ArrivedMessage] = []

    @classmethod
    def of(cls, data: bytes, row: ArrivedMessage) -> ParcelDraft:
        run = cls()
        run.add(data, row)
        return run

    @property
    def is_full(self) -> bool:
        """Whether the next message belongs into another parcel."""
        return self.count >= PARCEL_MESSAGES_MAX or self.size >= PARCEL_BYTES_MAX

    @property
    def first(self) -> ArrivedMessage:
        return self.pieces[0][1][0]

    def rows(self) -> list[ArrivedMessage]:
        return self._rows if len(self.pieces) == 1 else [row for _, rows in self.pieces for row in rows]

    def no_smaller_than_first(self) -> list[ArrivedMessage]:
        """Return the first row and the following ones that are at least as large: if the first finds no room, neither
        do they."""
        size = self.first.end - self.first.frame_at
        return list(takewhile(lambda row: row.end - row.frame_at >= size, self.rows()))

    def add(self, data: bytes, row: ArrivedMessage) -> None:
        _, _, _, frame_at, _, end, _ = row
        if data is not self._data or frame_at != self._end or not self.count:
            self._data, self._rows = data, []
            self.pieces.append((data, self._rows))
        self._rows.append(row)
        self._end = end
        self.count += 1
        self.size += end - frame_at

    def blob(self) -> bytes:
        """Return the frames, joined."""
        parts = [data[rows[0].frame_at : rows[-1].end] for data, rows in self.pieces]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def parcel(
        self,
        arrival: int,
        neighbour: bytes,
        via: bytes | None,
        recipients: tuple[bytes, ...],
        wall_s: int,
        ttl_s_max: int,
        *,
        stored: bool,
        indexed: bool,
    ) -> Parcel:
        """Return the parcel of all messages, accepted at Unix second `wall_s` and numbered from `arrival` on."""
        rows, head = self.rows(), self.first.head
        _, ids, heads, frames_at, _, ends, _ = zip(*rows, strict=True)
        if heads.count(head) == len(heads):
            ttls, expiries = array(U32, (head.ttl_s,)) * len(rows), array(U32, (head.expiry_min,)) * len(rows)
            deadlines = array(U32, (deadline_s(wall_s, head.ttl_s, head.expiry_min, ttl_s_max),)) * len(rows)
        else:
            ttls, expiries = array(U32, [one.ttl_s for one in heads]), array(U32, [one.expiry_min for one in heads])
            deadlines = array(U32, [deadline_s(wall_s, one.ttl_s, one.expiry_min, ttl_s_max) for one in heads])
        return Parcel(
            first=arrival,
            kind=head.kind,
            signer=head.signer,
            destination=head.destination,
            neighbour=neighbour,
            via=via,
            recipients=recipients,
            at_s=wall_s,
            blob=self.blob(),
            ends=array(U32, accumulate(map(sub, ends, frames_at))),
            ids=b"".join(ids),
            ttls=ttls,
            expiries=expiries,
            deadlines=deadlines,
            stored=stored,
            indexed=indexed,
        )

    def cut(self, messages: int, size: int) -> tuple[ParcelDraft, ParcelDraft]:
        """Split off the first rows within `messages` and `size` bytes, at least one; return them and the rest."""
        if self.count <= messages and self.size <= size:
            return self, ParcelDraft()
        head, tail = ParcelDraft(self.which), ParcelDraft(self.which)
        for data, rows in self.pieces:
            for row in rows:
                fits = head.count < messages and head.size + row.end - row.frame_at <= size
                part = head if not tail.count and (fits or not head.count) else tail
                part.add(data, row)
        return head, tail
