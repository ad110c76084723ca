"""Log directories read back: the facts an engine would collect of their files, their evidence, and their lines."""

from __future__ import annotations

import stat
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from router.core.log.line import Line, decode_line
from router.core.wire.crypto import verify
from samples.packed_logs import text_of
from spark_analytics.judgement.evidence import NO_LOG, Evidence, Gap, Witness, judge, witnessed
from spark_analytics.judgement.log_files import DEAD_LINK, NOT_A_FILE, FileFacts, Problem
from spark_analytics.judgement.schema import FRAME_EVENTS, role
from spark_analytics.judgement.segment_lines import examine

LINE_BYTES_MAX = 64 * 1024


def facts(path: Path) -> FileFacts:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return FileFacts(str(path), 0, b"", b"", "", NOT_A_FILE)
        data = text_of(path)
    except OSError as error:
        why = DEAD_LINK if path.is_symlink() else error.strerror or str(error)
        return FileFacts(str(path), 0, b"", b"", "", why)
    last = data.rfind(b"\n", 0, max(0, len(data) - 1)) + 1
    head = data[: data.find(b"\n") + 1 or len(data)]
    digest = sha256(data[:last]).hexdigest()
    return FileFacts(str(path), len(data), head[:LINE_BYTES_MAX], data[last:][-LINE_BYTES_MAX:], digest)


def candidates(*directories: Path) -> list[Path]:
    return [path for directory in directories for path in directory.iterdir() if role(path.name)]


def evidence(*directories: Path, order: Callable[[list[FileFacts]], None] = list.sort) -> Evidence:
    """Return the evidence of all candidates in these directories, checked by libsodium; `order` orders their facts."""
    found = [facts(path) for path in candidates(*directories)]
    order(found)
    empty = [Problem(str(directory), 0, NO_LOG) for directory in directories if not candidates(directory)]
    return judge(found, lambda path: [text_of(Path(path))], listed=empty, verify=verify)


@dataclass(frozen=True)
class Log:
    """One directory: its evidence, the lines that count in their order, and all problems, as text."""

    evidence: Evidence
    lines: list[Line]
    problems: list[str]


def read_log(directory: Path, router: bytes) -> Log:
    """Return the log of this router. Each file is also read line by line, although its footer is valid: the router
    under test wrote both."""
    found = evidence(directory) if candidates(directory) else judge([], lambda path: [])
    paths = [Path(file.path) for file in found.files if file.status in ("good", "tail")]
    inside = [
        f"{path}:{number}: {text}"
        for path in paths
        for number, text in examine([text_of(path)], verify, is_tail=role(path.name) == "tail").problems
    ]
    rows = [decode_line(line) for path in paths for line in text_of(path).splitlines()]
    lines = sorted((row for row in rows if row.event not in FRAME_EVENTS), key=lambda row: row.seq)
    gaps = [Gap(row.router or "", row.seq, row.n) for row in lines if "missing" in (row.fields or {})]
    heads = [
        Witness(row.router or "", row.fields["peer"], row.fields["head_seq"], row.fields["head_digest"])
        for row in lines
        if row.event == "link" and row.fields and "head_seq" in row.fields
    ]
    told = witnessed(found, gaps, heads)
    strange = [f"a log of the router {log.router}" for log in found.logs if log.router != router.hex()]
    holes = [f"events {hole.first_seq} to {hole.last_seq}: {hole.why}" for hole in told.holes]
    texts = [*map(str, told.problems), *inside, *strange, *holes]
    return Log(told, lines, [text.removeprefix(f"{directory}/") for text in texts])
