"""Looks one message up in the event log, by the indexes of the kept segments and of those not yet sealed.

It only reads files, so it may run in a thread beside the router that writes them. Lines that it cannot read, or that
are pruned meanwhile, are a hole. A missing index is made, as long as the caller's time allows.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from router.core.log.events import ID_BYTES, KNOWN_EVENTS, TURNED_EVENTS
from router.core.log.line import Line
from router.core.why.fate import Hole, Spoilt, Trace, covers
from router.core.why.id_prefix import IdPrefix
from router.disk.log import index as log_index
from router.disk.log.eventlog import SealedSegment, is_as_signed
from router.disk.log.file import EndlessLine, lines_of
from router.disk.log.index import INVITE, TAG_BYTES, Columns, IndexedLines, ids_in, is_of
from router.disk.log.line_form import read_line
from router.disk.log.packed import open_text
from router.disk.store.records import Record

CANDIDATES_MAX = 10
LINES_MAX = 20_000
DIGITS = 2 * ID_BYTES


class LogSnapshot(Struct, frozen=True):
    """A snapshot of a log. `is_behind`: the newest events wait in the store because the disk fails.

    `spoilt`: files that have a segment's name but no good footer. `next_seq`: the sequence number of the next event, 0
    if the store cannot be asked.
    """

    sealed: Sequence[SealedSegment]
    unsealed: Sequence[IndexedLines]
    pruned_seq: int
    is_behind: bool = False
    spoilt: Sequence[Path] = ()
    next_seq: int = 0


class Unnamed(NamedTuple):
    """The number of messages that were turned away and counted without ids, and the first and last time of these
    counts."""

    messages: int = 0
    first_ns: int = 0
    last_ns: int = 0


ALL_NAMED = Unnamed()


class Candidate(NamedTuple):
    """A message whose id begins with the wanted prefix, and its first arrival."""

    identity: bytes
    at_ns: int


class FoundEvents(Struct, frozen=True):
    """The `trace` of the one message, or several `candidates`: at most `CANDIDATES_MAX` and one more.

    `since_seq`, `since_ns`: where the kept log begins, 0 if it is empty. `unsearched`: the number of segments without
    an index, for which there was no time to make one; `unread`: files other than `spoilt` with wanted lines that cannot
    be read. `is_behind`: as in `LogSnapshot`. `missing`: events that the log lacks before its last or the
    store's next one, or that it records as missing. `spoilt`: files without a good footer, and files with wanted lines
    whose digest is not the signed one, unless the store still has all their events. `unnamed`: messages that the
    searched log only counts.
    """

    trace: Trace | None
    candidates: tuple[Candidate, ...]
    since_seq: int
    since_ns: int
    pruned_seq: int
    unsearched: int
    unread: tuple[str, ...] = ()
    is_behind: bool = False
    missing: tuple[Hole, ...] = ()
    spoilt: tuple[Spoilt, ...] = ()
    unnamed: Unnamed = ALL_NAMED


class _Hit(NamedTuple):
    line: Line
    identity: bytes


class Search:
    """One search. `has_time()` says whether a missing index may still be made."""

    def __init__(self, log: LogSnapshot, has_time: Callable[[], bool] = lambda: True) -> None:
        self._log = log
        self._has_time = has_time
        self._unsearched: dict[int, Hole] = {}
        self._unread: dict[Hole, str] = {}
        self._gaps: set[Hole] = set()
        self._counted: dict[int, array[int]] = {}
        self._is_cut = False
        self._sealed: dict[tuple[Path, ...], SealedSegment] = {(one.path,): one for one in log.sealed}
        self._believed: dict[int, bool] = {}
        self._endless: set[int] = set()
        self._router = log.sealed[0].footer.router if log.sealed else None
        self._spoilt = {(_first_seq(path), str(path)) for path in log.spoilt}

    def find(self, prefix: IdPrefix) -> FoundEvents:
        """Find every line about the message whose id begins with `prefix`, or the candidates if there are several."""
        return self._settled(lambda: self._found(self._hits(prefix)))

    def find_held(self, held: Record) -> FoundEvents:
        """Find every line about a message that the store holds; `held.line` stands in for an acceptance that the log
        lacks."""
        return self._settled(lambda: self._found_held(held))

    def _found_held(self, held: Record) -> FoundEvents:
        hits = self._hits(IdPrefix(held.identity, 8 * ID_BYTES))
        if any(hit.line.event == "accepted" for hit in hits):
            return self._found(hits)
        return self._found([_Hit(held.line, held.identity), *hits], is_by_store=True)

    def _settled(self, look: Callable[[], FoundEvents]) -> FoundEvents:
        """Repeat the search while it finds further spoilt files, whose lines it may already have used."""
        while True:
            known = len(self._endless)
            found = look()
            if len(self._endless) == known:
                return found

    def _found(self, hits: Sequence[_Hit], *, is_by_store: bool = False) -> FoundEvents:
        ids = {hit.identity: hit.line.t for hit in reversed(hits)}
        candidates = tuple(sorted((Candidate(*one) for one in ids.items()), key=lambda one: -one.at_ns))
        trace = self._trace(candidates[0].identity, hits) if len(candidates) == 1 else None
        sealed, unsealed = self._log.sealed, self._log.unsealed
        first = [(one.footer.first_seq, one.footer.min_t) for one in sealed]
        first += [(one.first_seq, one.min_t) for one in unsealed]
        since = min(first, default=(0, 0))
        missing, holes = tuple(sorted({*self._gaps, *self._between()})), self._holes()
        spoilt = tuple(sorted(one for one in self._spoilt if _lies_in(one[0], holes)))
        named = {first_seq for first_seq, _ in spoilt}
        unread = tuple(path for (first, _), path in sorted(self._unread.items()) if first not in named)
        log = self._log
        if trace is not None:
            trace = replace(trace, spoilt=spoilt, is_by_store=is_by_store)
        return FoundEvents(
            trace,
            candidates,
            *since,
            log.pruned_seq,
            len(self._unsearched),
            unread,
            log.is_behind,
            missing,
            spoilt,
            self._unnamed(),
        )

    def _unnamed(self) -> Unnamed:
        counted = [one for one in self._counted.values() if one]
        times = [at for one in counted for at in one[0::2]]
        return Unnamed(sum(sum(one[1::2]) for one in counted), min(times, default=0), max(times, default=0))

    # -- by id -----------------------------------------------------------------------------------------------

    def _hits(self, prefix: IdPrefix) -> list[_Hit]:
        """Return the lines that name ids with this prefix, oldest first; one line of each where several ids match."""
        tags: dict[bytes, list[tuple[IndexedLines, int]]] = {}
        for span in self._spans():
            column = span.columns.ids
            for at in span.columns.holding_ids(prefix.whole):
                tag = column[at * TAG_BYTES : (at + 1) * TAG_BYTES]
                if prefix.fits(tag):
                    tags.setdefault(tag, []).append((span, at))
            if len(tags) > CANDIDATES_MAX:
                break
        few = len(tags) == 1
        hits: list[_Hit] = []
        for tag, places in list(tags.items())[: CANDIDATES_MAX + 1]:
            done: set[tuple[int, int]] = set()
            self._is_cut |= few and len(places) > LINES_MAX
            for span, at in places[:LINES_MAX] if few else places[:1]:
                start, stop = span.columns.lines_of_id(at)
                if (span.first_seq, start) in done:
                    continue
                done.add((span.first_seq, start))
                hits += self._naming(span, start, stop, tag.hex(), prefix)
        ids = {hit.identity for hit in hits}
        if not few and len(ids) == 1:  # The others have been pruned meanwhile: find every line of this one.
            return self._hits(IdPrefix(ids.pop(), 8 * ID_BYTES))
        return sorted({(hit.line.seq, hit.identity): hit for hit in hits}.values(), key=lambda hit: hit.line.seq)

    def _naming(self, span: IndexedLines, start: int, stop: int | None, tag: str, prefix: IdPrefix) -> Iterator[_Hit]:
        for line in self._lines(span, start, stop, (tag.encode(),)):
            ids = ids_in(line)
            at = ids.find(tag)
            while at >= 0:
                if not at % DIGITS:
                    identity = bytes.fromhex(ids[at : at + DIGITS])
                    if prefix.fits(identity):
                        yield _Hit(line, identity)
                at = ids.find(tag, at + 1)

    # -- by parcel -------------------------------------------------------------------------------------------

    def _trace(self, identity: bytes, hits: Sequence[_Hit]) -> Trace:
        accepted = [hit.line for hit in hits if hit.line.event == "accepted"]
        turned = tuple(hit.line for hit in hits if hit.line.event in TURNED_EVENTS)
        noted = tuple(hit.line for hit in hits if hit.line.event not in KNOWN_EVENTS or hit.line.event == INVITE)
        if not accepted:
            return Trace(identity, (), turned, (), self._holes(), self._is_cut, noted=noted)
        outward: dict[int, Line] = {}
        arrivals = [(row.first or 0) + (row.ids or "").index(identity.hex()) // DIGITS for row in accepted]
        parcels = {row.first or 0 for row in accepted}
        wanted = tuple(b'"parcel":%d,' % one for one in parcels)
        for span in self._spans(accepted[0].seq):
            for start, stop in span.columns.lines_of_parcels(parcels):
                if len(outward) > LINES_MAX:
                    break
                for line in self._lines(span, start, stop, wanted):
                    if line.parcel in parcels:
                        outward.update({line.seq: line} if any(covers(line, one) for one in arrivals) else {})
        self._is_cut |= len(outward) > LINES_MAX
        lines = tuple(outward[seq] for seq in sorted(outward)[:LINES_MAX])
        return Trace(identity, tuple(accepted), turned, lines, self._holes(), self._is_cut, noted=noted)

    def _holes(self) -> tuple[Hole, ...]:
        """Return the sequence numbers without a line, oldest first: between segments, recorded by the log as missing,
        not searched, or in segments that cannot be read."""
        holes = {*self._gaps, *self._unsearched.values(), *self._unread, *self._between()}
        if self._log.is_behind:
            ends = [one.footer.last_seq for one in self._log.sealed] + [one.last_seq for one in self._log.unsealed]
            holes.add((max(ends, default=self._log.pruned_seq) + 1, 0))
        return tuple(sorted(holes))

    def _between(self) -> Iterator[Hole]:
        """Yield the sequence numbers that no segment holds, up to the last segment and the last number that the store
        has assigned."""
        held = [(one.footer.first_seq, one.footer.last_seq) for one in self._log.sealed]
        held += [(one.first_seq, one.last_seq) for one in self._log.unsealed]
        following = self._log.pruned_seq + 1
        for first, last in held:
            if first > following:
                yield following, first - 1
            following = max(following, last + 1)
        beyond = [_first_seq(path) for path in self._log.spoilt if _first_seq(path) >= following]
        if self._log.next_seq > following and not self._log.is_behind:
            yield following, self._log.next_seq - 1
        elif beyond and not self._log.next_seq:
            yield min(beyond), 0

    # -- segments --------------------------------------------------------------------------------------------

    def _spans(self, from_seq: int = 0) -> Iterator[IndexedLines]:
        """Yield the segments with lines from `from_seq` on, oldest first."""
        last = 0
        for one in self._log.sealed:
            last = one.footer.last_seq
            if last >= from_seq and (columns := self._columns(one)) is not None:
                self._note_gaps(columns)
                self._counted[one.footer.first_seq] = columns.unnamed
                yield IndexedLines((one.path,), one.footer.first_seq, last, one.footer.min_t, one.size, columns)
        for span in self._log.unsealed:
            if span.last_seq >= max(from_seq, last + 1):
                self._note_gaps(span.columns)
                self._counted[span.first_seq] = span.columns.unnamed
                yield span

    def _note_gaps(self, columns: Columns) -> None:
        gaps = columns.gaps
        self._gaps.update((gaps[at], gaps[at] + gaps[at + 1] - 1) for at in range(0, len(gaps), 2))

    def _columns(self, one: SealedSegment) -> Columns | None:
        digest = one.footer.sha256 or ""
        found = log_index.read(one.path, one.size, digest)
        if found is None and one.footer.first_seq not in self._unsearched:
            if not self._has_time():
                self._unsearched[one.footer.first_seq] = one.footer.first_seq, one.footer.last_seq
                return None
            if not self._believes(one):
                return None
            try:
                found = log_index.make(one.path, one.size, one.footer)
            except EndlessLine:
                self._end(one.footer.first_seq, one.footer.last_seq, one.path)
                return None
            except FileNotFoundError:
                self._unread[one.footer.first_seq, one.footer.last_seq] = str(one.path)
                return None
            with suppress(OSError):
                log_index.write(one.path, one.size, digest, found)
        return found

    def _believes(self, one: SealedSegment) -> bool:
        """Whether the file has the signed digest. If not, or if it is gone, all of it is a hole."""
        first_seq = one.footer.first_seq
        if first_seq not in self._believed:
            try:
                self._believed[first_seq] = is_as_signed(one.path, one)
                self._spoilt |= set() if self._believed[first_seq] else {(first_seq, str(one.path))}
            except FileNotFoundError:
                self._believed[first_seq] = False
            if not self._believed[first_seq]:
                self._unread[first_seq, one.footer.last_seq] = str(one.path)
        return self._believed[first_seq]

    def _lines(self, span: IndexedLines, start: int, stop: int | None, wanted: Iterable[bytes]) -> Iterator[Line]:
        """Yield the lines between these offsets that hold one of these words. All lines are checked, because a damaged
        one may have lost its words."""
        sealed, first_seq = self._sealed.get(span.paths), span.first_seq
        if first_seq in self._endless or (sealed is not None and not self._believes(sealed)):
            return
        left = (span.size if stop is None else min(stop, span.size)) - start
        is_whole, found = True, list[Line]()
        try:
            for data in _read(span.paths, start, left) if left > 0 else ():
                left -= len(data)
                try:
                    line = read_line(data.removesuffix(b"\n"))
                except ValueError:
                    is_whole = False
                    continue
                is_its_own = is_of(line, first_seq, span.last_seq, self._router)
                is_whole &= is_its_own
                if is_its_own and any(word in data for word in wanted):
                    found.append(line)
        except EndlessLine:
            self._end(first_seq, span.last_seq, span.paths[0])
            return
        if left or not is_whole:
            self._unread[first_seq, span.last_seq] = str(span.paths[0])
        yield from found

    def _end(self, first_seq: int, last_seq: int, path: Path) -> None:
        """Discard a file that has a line without an end."""
        self._endless.add(first_seq)
        self._believed[first_seq] = False
        self._spoilt.add((first_seq, str(path)))
        self._unread[first_seq, last_seq] = str(path)


def unaccepted(found: FoundEvents, prefix: IdPrefix) -> IdPrefix | None:
    """Return the prefix to ask the store for if the log has no acceptance; None if it has one, or several messages."""
    if found.trace is not None:
        return None if found.trace.accepted else IdPrefix(found.trace.identity, 8 * ID_BYTES)
    return None if found.candidates else prefix


def offered(found: FoundEvents, records: Sequence[Record]) -> FoundEvents:
    """Return `found` with the store's messages as candidates, if the store has several."""
    rows = tuple(Candidate(one.identity, one.line.t) for one in records)
    return replace(found, candidates=rows) if len(rows) > 1 else found


def _lies_in(seq: int, holes: Sequence[Hole]) -> bool:
    return any(first <= seq and (seq <= last or not last) for first, last in holes)


def _first_seq(path: Path) -> int:
    """Return the first sequence number from the name of a segment's file."""
    return int(path.name.partition(".")[0].rpartition("-")[2])


def _read(paths: Iterable[Path], start: int, size: int) -> Iterator[bytes]:
    """Yield the lines in `size` bytes from `start` on; fewer if the file is shorter, none if it is gone."""
    for path in paths:
        with suppress(FileNotFoundError), open_text(path) as file:
            file.seek(start)
            yield from lines_of(file, size)
            return
