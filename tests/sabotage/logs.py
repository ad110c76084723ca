"""The saboteur's access to logs: read as lines, changed, and sealed again with the router's key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from msgspec.structs import replace

from router.core.log.line import Line, decode_line, encode_lines
from router.core.log.segment import SegmentTotals, file_name, header, sign
from router.core.wire.crypto import SigningKey

Rows = list[Line]


@dataclass(frozen=True, order=True)
class LogFile:
    """A segment, and the events it covers."""

    path: Path
    router: str
    first: int
    last: int


def segments(directory: Path) -> list[LogFile]:
    """Return the sealed segments of one log, in order."""
    found = []
    for path in sorted(directory.glob("events-*.jsonl")):
        footer = decode_line(path.read_bytes().splitlines()[-1])
        found.append(LogFile(path, footer.router or "", footer.first_seq, footer.last_seq))
    return found


def read_rows(paths: Iterable[Path]) -> Rows:
    """Return the lines of these segments' events."""
    rows = [decode_line(line) for path in paths for line in path.read_bytes().splitlines()]
    return [row for row in rows if row.event not in ("segment", "seal")]


def renumbered(rows: Iterable[Line], first_seq: int = 1) -> Rows:
    """Return the lines with consecutive sequence numbers."""
    out = []
    for row in rows:
        out.append(replace(row, seq=first_seq))
        first_seq += row.n
    return out


def in_parts(rows: Sequence[Line], parts: int) -> list[Rows]:
    """Split the lines into `parts` parts, or fewer if there are fewer lines."""
    cuts = sorted({len(rows) * part // parts for part in range(parts + 1)})
    return [list(rows[start:stop]) for start, stop in pairwise(cuts)]


def seal(
    directory: Path,
    key: SigningKey,
    parts: Iterable[Rows],
    predecessor: str | None = None,
    *,
    version: int = 1,
    encode: Callable[[Rows], bytes] = encode_lines,
    reasons: Sequence[str] | None = None,
) -> list[Path]:
    """Write each part as a signed segment, the first after `predecessor`. `encode` may write lines that no router
    would; `reasons`: the words that each header names."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for rows in parts:
        tally = SegmentTotals(rows[0].seq)
        for row in rows:
            tally.note(row)
        data = encode_lines([replace(header(rows[0], predecessor, reasons), v=version)]) + encode(rows)
        tally.digest.update(data)
        footer = sign(replace(tally.footer(key.public.hex(), predecessor), v=version), key)
        path = directory / file_name(rows[0].seq)
        path.write_bytes(data + encode_lines([footer]))
        paths.append(path)
        predecessor = footer.sha256
    return paths


def seal_again(
    directory: Path, key: SigningKey, change: Callable[[Rows], Rows], parts: int = 5, *, names_reasons: bool = True
) -> list[Path]:
    """Write the whole log again, as a router would have written the lines that `change` returns; unless
    `names_reasons`, one of an earlier version, of which no header names reasons."""
    old = segments(directory)
    with old[0].path.open("rb") as file:
        reasons = decode_line(file.readline()).reasons if names_reasons else None
    rows = renumbered(change(read_rows(one.path for one in old)))
    for one in old:
        one.path.unlink()
    return seal(directory, key, in_parts(rows, parts), reasons=reasons)


def digest(path: Path) -> str:
    """Return the digest of the segment's lines that its footer states."""
    return decode_line(path.read_bytes().splitlines()[-1]).sha256 or ""
