"""Drafts of parcels: messages of one link that will share a parcel, with their positions in the reads."""

from __future__ import annotations

from array import array
from itertools import accumulate, takewhile

from router.core.wire.lifetime import deadline_s

from .intake import Row
from .parcel import U32, Parcel


class ParcelDraft:
    """Messages of one link, in order, that share kind, signer, destination, VIA and whether ttl is 0.

    `pieces`: pairs of a read's data and the rows in it that follow each other without a gap.
    """

    __slots__ = ("count", "pieces", "size", "which")

    def __init__(self, which: object = None) -> None:
        self.which = which
        self.pieces: list[tuple[bytes, list[Row]]] = []
        self.count = 0
        self.size = 0

    @classmethod
    def of(cls, data: bytes, row: Row) -> ParcelDraft:
        run = cls()
        run.add(data, row)
        return run

    @property
    def first(self) -> Row:
        return self.pieces[0][1][0]

    def rows(self) -> list[Row]:
        return [row for _, rows in self.pieces for row in rows]

    def no_smaller_than_first(self) -> list[Row]:
        """Return the first row and the following ones that are at least as large: if the first finds no room, neither
        do they."""
        size = self.first.end - self.first.frame_at
        return list(takewhile(lambda row: row.end - row.frame_at >= size, self.rows()))

    def add(self, data: bytes, row: Row) -> None:
        if self.pieces and self.pieces[-1][0] is data and self.pieces[-1][1][-1].end == row.frame_at:
            self.pieces[-1][1].append(row)
        else:
            self.pieces.append((data, [row]))
        self.count += 1
        self.size += row.end - row.frame_at

    def blob(self) -> bytes:
        """Return the frames, joined."""
        parts = [data[rows[0].frame_at : rows[-1].end] for data, rows in self.pieces]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def parcel(
        self, arrival: int, neighbour: bytes, via: bytes | None, recipients: tuple[bytes, ...], wall_s: int,
        ttl_s_max: int, *, stored: bool, indexed: bool,
    ) -> Parcel:  # fmt: skip
        """Return the parcel of all messages, accepted at Unix second `wall_s` and numbered from `arrival` on."""
        rows, first = self.rows(), self.first
        ttls = array(U32, [row.ttl_s for row in rows])
        expiries = array(U32, [row.expiry_min for row in rows])
        if len(set(ttls)) == len(set(expiries)) == 1:
            deadlines = array(U32, [deadline_s(wall_s, first.ttl_s, first.expiry_min, ttl_s_max)]) * len(rows)
        else:
            deadlines = array(U32, [deadline_s(wall_s, row.ttl_s, row.expiry_min, ttl_s_max) for row in rows])
        return Parcel(
            first=arrival, kind=first.kind, signer=first.signer, destination=first.destination, neighbour=neighbour,
            via=via, recipients=recipients, at_s=wall_s, blob=self.blob(),
            ends=array(U32, accumulate([row.end - row.frame_at for row in rows])),
            ids=b"".join([row.id for row in rows]), ttls=ttls, expiries=expiries, deadlines=deadlines, stored=stored,
            indexed=indexed,
        )  # fmt: skip

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
