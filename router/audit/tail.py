"""The newest events of a node, which no segment of its log holds yet: from the running node, or from its store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import lmdb
import msgspec

from router.audit.database import scratch
from router.audit.key_names import key_names
from router.audit.listing import Listing, homes_below, list_logs
from router.cli.exits import Failure
from router.cli.services import know_reasons
from router.client.running_or_stopped import asked_or_read
from router.core.log.line import Line, decode_line, encode_lines, rows
from router.core.log.segment import header
from router.core.wire.codec import Malformed
from router.core.wire.errors import RouterError
from router.disk.room import DATA
from router.disk.store.file import UNREADABLE, reading, unusable
from router.disk.store.terms import StoreError
from router.settings import keyring, own_successions
from router.settings.home import Home
from spark_analytics.judgement.evidence import NO_LOG
from spark_analytics.judgement.log_files import Problem
from spark_analytics.judgement.schema import named_seq, role

ROUNDS_MAX = 100_000
"""Most questions to a node that writes faster than it is read; by then the tail is long enough."""

Ask = Callable[[Home, str, str], Any]
"""Asks the node that runs on a home an inquiry with one argument; returns the decoded answer."""


@contextmanager
def logs_of(paths: Iterable[Path], ask: Ask, own: Home | None = None) -> Iterator[Listing]:
    """Yield the log files below the paths and, for as long as this lasts, the tails of those homes of nodes that are
    paths or lie below them. If a node's store cannot be read, its segments are listed, and the store is a problem.
    `own`: the home whose names for keys come first."""
    with ExitStack() as stack:
        tails, unsealed = _Tails(ask, stack), set[str]()
        for path in paths:
            home = Home(path) if path.is_dir() else None
            if home and home.holds_node:
                tails.take(home)
            else:
                before = len(tails.given)
                for below in sorted(homes_below(path)) if path.is_dir() else ():
                    tails.take_below(Home(below))
                if len(tails.given) > before:
                    unsealed.add(str(path))
                tails.given.append(path)
        listing = list_logs(tails.given)
        listing.problems[:] = [one for one in listing.problems if one.text != NO_LOG or one.path not in unsealed]
        listing.problems += tails.problems
        listing.names = tails.names
        listing.key_names = key_names([*([own] if own else []), *tails.homes])
        yield listing


class _Tails:
    """The tails of homes, below a directory that lasts as long as `stack`. `given`: the paths to list, tails among
    them; `names`: those under which tails are reported; `problems`: homes whose newest events are not known."""

    def __init__(self, ask: Ask, stack: ExitStack) -> None:
        self.given: list[Path] = []
        self.problems: list[Problem] = []
        self.names: dict[str, str] = {}
        self.homes: list[Home] = []
        self._ask = ask
        self._stack = stack
        self._directory: Path | None = None

    def take(self, home: Home) -> None:
        """Take the log and the tail of a home that was named; raise what hinders it unless there are segments."""
        try:
            know_reasons(home)
            self.given += self._paths(home)
        except StoreError as error:
            if not _has_log(home):
                raise
            self.given.append(home.log_path)
            self._leave_out(home, error)

    def take_below(self, home: Home) -> None:
        """Take the tail of a home that lies below a path: whatever hinders it is a problem beside the other logs. Its
        segments are found where the path is searched."""
        try:
            know_reasons(home, is_trusted=False)
            self.given += [path for path in self._paths(home) if path != home.log_path]
        except (StoreError, RouterError, Failure, OSError) as error:
            self._leave_out(home, error)

    def _paths(self, home: Home) -> list[Path]:
        self.homes.append(home)
        self._directory = self._directory or self._stack.enter_context(scratch())
        mine = self._directory / f"{len(self.homes):06d}"  # numbered in the order in which the homes were given
        mine.mkdir()
        found = node_paths(home, mine, self._ask)
        self.names |= _names(home, mine)
        return found

    def _leave_out(self, home: Home, error: Exception) -> None:
        self.problems.append(Problem(str(home.store_path), 0, f"the newest events are not known: {error}"))


def _names(home: Home, directory: Path) -> dict[str, str]:
    """Return the names under which the tails of that home are reported, instead of their temporary paths."""
    tails = sorted(path for path in directory.iterdir())
    said = [f" from {named_seq(path.name)}" if len(tails) > 1 else "" for path in tails]
    return {str(path): f"{home.path} (unsealed events{which})" for path, which in zip(tails, said, strict=True)}


def node_paths(home: Home, directory: Path, ask: Ask) -> list[Path]:
    """Return the paths to audit of the node in that home: its log, and its tail, which is written into `directory`.

    The tail is taken first, so that an event sealed meanwhile is in one or both. Errors of the home, the store and of
    `ask` pass through, and say what to do.
    """
    written = asked_or_read(
        home, lambda: write_tails(_told(home, ask), directory), lambda: write_tails(_stored(home), directory)
    )
    return [*([home.log_path] if _has_log(home) or not written else []), *written]


def _has_log(home: Home) -> bool:
    try:
        return home.log_path.is_dir() and any(role(path.name) for path in home.log_path.iterdir())
    except OSError:
        return True  # The obstacle is reported when the directory is listed.


def write_tails(lines: Iterable[Line], directory: Path) -> list[Path]:
    """Write files `tail-<first sequence number>.jsonl`, a new one after each gap: those numbers are in a segment."""
    paths: list[Path] = []
    next_seq = -1
    with ExitStack() as opened:
        for line in lines:
            if line.seq != next_seq:
                opened.close()
                paths.append(directory / f"tail-{line.seq:016d}.jsonl")
                file = opened.enter_context(paths[-1].open("wb"))
                file.write(encode_lines([header(line, None)]))
            file.write(encode_lines([line]))
            next_seq = line.seq + line.n
    return paths


def _told(home: Home, ask: Ask) -> Iterator[Line]:
    """Read the newest events from the running node, part by part."""
    after = 0
    for _ in range(ROUNDS_MAX):
        answer = ask(home, "log", str(after))
        for text in answer["lines"]:
            yield decode_line(text.encode())
        after = answer["next_seq"] - 1
        if not answer["more"]:
            return


def _stored(home: Home) -> Iterator[Line]:
    """Read the newest events from the store of a stopped node, whose lock we hold."""
    path = home.store_path
    try:
        is_there = (path / DATA).exists()
    except OSError as error:
        raise StoreError(f"{path / DATA} cannot be read: {error.strerror}") from None
    if not is_there:
        if _has_log(home):
            raise StoreError(f"{path / DATA} is not there")
        return
    router = own_successions.first_key(home.key_path.parent, keyring.load(home, keyring.NODE).public)
    try:
        with reading(path, "log") as log:
            for _, value in log:
                yield from rows(bytes(value), bytes(router))
    except lmdb.NotFoundError:
        return
    except (lmdb.Error, OSError, Malformed, msgspec.MsgspecError, *UNREADABLE) as error:
        raise unusable(path, "cannot be read", error) from None
