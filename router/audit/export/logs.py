"""Write every log anew for other people, under pseudonyms, and sign it under its router's pseudonym.

    OUT/<router's name>/log/events-….jsonl, tail-….jsonl, pruned.jsonl     what `router audit` reads
    OUT/<router's name>/log-2/…                                             more files of the same names
    OUT/export.json                                                         how many of each, and nothing else

Sequence numbers, times, sizes and reasons stay as they are, so an audit of the export gives the same figures. A file
that cannot be believed gets a stand-in, which an audit finds bad over the same sequence numbers; forks stay forks. The
export never holds a key, an id, a path or text of a state event.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from router.audit.disk_space import NO_ROOM, no_room
from router.audit.export.lines import ExportError, Writer
from router.audit.export.pseudonyms import SECRET_BYTES, Pseudonyms
from router.disk import private_file
from spark_analytics.judgement.evidence import Evidence
from spark_analytics.judgement.log_files import FileFacts

SCHEMA = "upsycle log export 1"
_ABOUT = "export.json"

Report = Callable[[str, float], None]
"""Callback for progress: the current step, and the fraction of it that is done."""


class Exported(NamedTuple):
    """The contents of an export. `left_out`: files that cannot be believed; only a stand-in of each is there."""

    routers: int
    segments: int
    events: int
    left_out: int


def existing_secret(path: Path) -> bytes | None:
    """Return the secret (hex) in this file; None if there is no such file. Raise `ExportError` if it is invalid, or
    open to others."""
    try:
        text = private_file.read(path, 2 * SECRET_BYTES + 2).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return None
    except private_file.Exposed as error:
        raise ExportError(f"{error}; whoever reads it can undo the names: `chmod 600 {path}`") from None
    except OSError as error:
        raise ExportError(f"{path} cannot be read: {error.strerror}; name another file for the secret") from None
    try:
        secret = bytes.fromhex(text)
    except ValueError:
        secret = b""
    if len(secret) != SECRET_BYTES:
        raise ExportError(f"{path} holds no secret for exports: {2 * SECRET_BYTES} hex digits; name another file")
    return secret


def secret_from(path: Path, made: Callable[[Path], None] = lambda path: None) -> bytes:
    """Return the secret in this file; make a new one if there is none, and call `made`. Raise `ExportError` also if it
    cannot be made."""
    if found := existing_secret(path):
        return found
    try:
        private_file.create(path, secrets.token_hex(SECRET_BYTES).encode() + b"\n")
        made(path)
    except FileExistsError:
        pass  # Another process has just made it.
    except OSError as error:
        another = "make room there, or name a file on another disk"
        remedy = another if error.errno in NO_ROOM else "name a file in a directory you may write"
        raise ExportError(f"{path} cannot be made: {error.strerror}; {remedy}") from None
    if found := existing_secret(path):
        return found
    raise ExportError(f"{path} was removed in the meantime; run it again")


def place_of(out: Path) -> Path:
    """Return the path of an export into `out`; raise `ExportError` unless that is missing or empty."""
    place = Path(os.path.realpath(out))
    try:
        is_free = not place.exists() or (place.is_dir() and not any(place.iterdir()))
    except OSError as error:
        raise ExportError(f"{error.filename or out} cannot be read: {error.strerror}; name a new directory") from None
    if not is_free:
        raise ExportError(f"{out} is there already; name a new directory")
    return place


def export(
    evidence: Evidence,
    facts: Iterable[FileFacts],
    out: Path,
    names: Callable[[], Pseudonyms],
    report: Report = lambda what, part: None,
) -> Exported:
    """Write an export into `out`, which must be missing or empty; all or nothing. Nothing is written if no file can be
    believed.

    `evidence` and `facts` are the results of `evidence_of`; `names` is called when there is something to write.
    """
    place = place_of(out)
    if not evidence.seals and not any(file.status in ("tail", "fork") for file in evidence.files):
        raise ExportError("none of the files holds a log that can be believed; nothing was exported")
    try:
        return _export(Writer(evidence, facts, names()), place, report)
    except OSError as error:
        failed = f"{error.filename or out} failed: {error.strerror}"
        text = no_room(place.parent, place.parent) if error.errno in NO_ROOM else failed
        raise ExportError(f"{text}; nothing was exported") from None


def _export(writer: Writer, place: Path, report: Report) -> Exported:
    token, is_new = secrets.token_hex(8), not place.exists()
    draft = place.with_name(f".{place.name}.{token}") if is_new else place / f".{token}"
    above = [path for path in draft.parents if not path.exists()]
    try:
        draft.mkdir(parents=True)
        writer.write(draft, report)
        said = Exported(len(writer.routers), writer.segments, writer.events, len(writer.left_out))
        (draft / _ABOUT).write_text(json.dumps({"schema": SCHEMA, **said._asdict()}) + "\n")
        if is_new:
            draft.replace(place)
        else:
            _move_up(draft)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        for path in above:
            with suppress(OSError):  # It holds the export.
                path.rmdir()
    return said


def _move_up(draft: Path) -> None:
    """Move everything in the draft into the directory around it, which must not be replaced: a process may be in it."""
    names = sorted((path.name for path in draft.iterdir()), key=lambda name: name == _ABOUT)
    try:
        for name in names:
            (draft / name).rename(draft.parent / name)
    except BaseException:
        for name in names:
            if not (draft / name).exists():
                (draft.parent / name).rename(draft / name)
        raise
