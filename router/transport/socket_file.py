"""The file of a listening Unix socket: made in the place of a stale one, and made again if it is lost.

A cleaner of temporary folders, the end of a login or an `rm` may take away the file or its directory. The process still
listens then, but nobody can connect, and the kernel does not say so; therefore the file is looked at.
"""

from __future__ import annotations

import errno
import fcntl
import grp
import logging
import os
import re
import socket
import stat
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import trio
from trio.socket import SocketType

from router.transport.contract import ListenFailed
from router.transport.sockets import words
from router.transport.whole_times import next_whole_s

PATH_BYTES_MAX = 107
"""The longest path in a socket address."""
LOOK_S = 1.0
"""Seconds between two looks at the file."""
AGAIN_S = 5.0
"""Seconds between two attempts to make it again, while that fails."""
BUSY_PAUSE_S = 0.01
"""Seconds before the next attempt while the directory is locked."""
LOCK_TRIES = 100

log = logging.getLogger(__name__)


class AlreadyServed(OSError):
    """Another process listens at the path."""


class NotASocket(OSError):
    """The path is that of another file."""


_IN_PLACE: dict[type[Exception], str] = {
    AlreadyServed: "another program listens there",
    NotASocket: "another file is in its place",
}


def access_in(options: Mapping[str, str]) -> tuple[int, int | None]:
    """Return the mode and the group that the options of a URL give a socket's file: 600 and none without, 660 with a
    group. Raise `ValueError`."""
    mode, group = options.get("mode", "660" if "group" in options else "600"), options.get("group", "")
    if not re.fullmatch("0?[0-7]{3}", mode):
        raise ValueError(f'the mode "{mode[:20]}" is not three digits from 0 to 7, as 660')
    return int(mode, 8), _group_number(group) if group else None


def _group_number(name: str) -> int:
    try:
        return int(name) if name.isdecimal() else grp.getgrnam(name).gr_gid
    except KeyError:
        raise ValueError(f'there is no group "{name}" on this machine; `getent group` lists them') from None


class SocketFile:
    """The file at a path, with its mode and group. `is_private`: whether its directory is made if it is missing, and
    refused if others may put their socket there."""

    def __init__(self, path: Path, mode: int, group: int | None, backlog: int, *, is_private: bool) -> None:
        self.path = path
        self._mode = mode
        self._group = group
        self._backlog = backlog
        self._is_private = is_private
        self._made: os.stat_result | None = None
        self._directory: os.stat_result | None = None

    def __repr__(self) -> str:
        return f"<socket file {self.path}: {'there' if self.is_there else 'not there'}>"

    @property
    def is_there(self) -> bool:
        """Whether the file that was made is at its path."""
        try:
            found = self.path.lstat()
        except OSError:
            return False
        return self._made is not None and os.path.samestat(found, self._made) and stat.S_ISSOCK(found.st_mode)

    async def open(self) -> socket.socket:
        """Make the file, and return the socket that listens there; raise `OSError` or `ListenFailed`."""
        self._make_directory()
        async with self._alone():
            return self._bind()

    def remove(self) -> None:
        """Remove the file, unless another one has replaced it."""
        if self.is_there:
            with suppress(OSError):
                self.path.unlink()

    async def keep(self, replace: Callable[[socket.socket], None]) -> None:
        """Make the file again whenever it is gone, and call `replace` with the socket that listens there now."""
        problem = ""
        while True:
            await trio.sleep_until(next_whole_s(AGAIN_S if problem else LOOK_S))
            if self.is_there:
                problem = ""
                with suppress(OSError):  # it goes just now, perhaps
                    self._directory = self.path.parent.stat()
                continue
            try:
                raw = await self.open()
            except (OSError, ListenFailed) as error:
                if (found := _IN_PLACE.get(type(error)) or words(error)) != problem:
                    said = "the socket file %s is gone, so nobody can connect there, and it cannot be made again: %s; "
                    log.warning(f"{said}this is tried every %g s", self.path, found, AGAIN_S)
                problem = found
            else:
                problem = ""
                said = "the socket file %s was gone, and is made again; keep cleaners of temporary files away from it"
                log.warning(said, self.path)
                replace(raw)

    def _make_directory(self) -> None:
        """Make the directory if it is missing: again as it was, or private."""
        directory, was = self.path.parent, self._directory
        if was is None:
            if self._is_private:
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            return
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700)
            with suppress(PermissionError):
                os.chown(directory, -1, was.st_gid)
            directory.chmod(stat.S_IMODE(was.st_mode))

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Lock the directory, so that two processes starting at once check a stale socket one after the other."""
        try:
            handle = os.open(self.path.parent, os.O_RDONLY)
        except PermissionError:
            if self._is_private:
                raise
            yield  # a directory may be used, and not be read
            return
        try:
            if self._is_private:
                _check_directory(self.path.parent, os.fstat(handle))
            await _lock(handle)
            yield
        finally:
            os.close(handle)

    def _bind(self) -> socket.socket:
        raw = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            raw.setblocking(False)
            with suppress(OSError):
                os.fchmod(raw.fileno(), 0o600)  # on Linux the file is made with this mode, never wider
            try:
                raw.bind(os.fsencode(self.path))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                _remove_stale(self.path)
                raw.bind(os.fsencode(self.path))
            if self._group is not None:
                os.chown(self.path, -1, self._group)
            self.path.chmod(self._mode)
            raw.listen(self._backlog)
            self._made, self._directory = self.path.lstat(), self.path.parent.stat()
        except BaseException:
            raw.close()
            raise
        return raw


class KeptListener:
    """The listening socket of a file, for tasks that accept: they go on at the new one when the file is made again."""

    def __init__(self, raw: socket.socket) -> None:
        self._use(raw)
        self._early = deque[tuple[SocketType, Any]]()

    def __repr__(self) -> str:
        return f"<listener {self._raw.fileno()}, {len(self._early)} of earlier ones wait>"

    def _use(self, raw: socket.socket) -> None:
        self._raw, self._listener = raw, trio.socket.from_stdlib_socket(raw)

    async def accept(self) -> tuple[SocketType, Any]:
        """Return the next connection, with an address that says nothing."""
        while not self._early:
            listener = self._listener
            try:
                return await listener.accept()
            except (trio.ClosedResourceError, OSError):  # the latter if it was closed just before its turn
                if listener is self._listener:
                    raise
        return self._early.popleft()

    def replace(self, raw: socket.socket) -> None:
        """Accept at this socket from now on, after those that have connected to the one before."""
        self._early.extend((trio.socket.from_stdlib_socket(one), "") for one in waiting_at(self._raw))
        before = self._listener
        self._use(raw)
        before.close()

    def close(self) -> None:
        for stream, _ in self._early:
            stream.close()
        self._listener.close()


def waiting_at(raw: socket.socket) -> Iterator[socket.socket]:
    """Yield the connections that wait at a listening socket that does not block."""
    while True:
        try:
            stream, _ = raw.accept()
        except OSError:
            return
        yield stream


async def _lock(handle: int) -> None:
    for _ in range(LOCK_TRIES):
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            await trio.sleep(BUSY_PAUSE_S)
    raise OSError(errno.EBUSY, "another program has locked the directory of the socket")


def _check_directory(directory: Path, found: os.stat_result) -> None:
    mode = stat.S_IMODE(found.st_mode)
    advice = "use a directory of your own (a new one gets mode 0700)"
    if found.st_uid != os.geteuid() and mode & 0o077:
        text = f"the directory {directory} is not yours (user number {found.st_uid}, mode {mode:04o})"
        raise ListenFailed(f"{text}, and others could put their socket there; {advice}")
    if mode & 0o022 and not mode & stat.S_ISVTX:
        raise ListenFailed(
            f"others may write to the directory {directory} (mode {mode:04o}); {advice}, or chmod 700 {directory}"
        )


def _remove_stale(path: Path) -> None:
    """Remove the socket of a process that is gone; if it lives, or is no socket, raise what says so."""
    if not stat.S_ISSOCK(path.lstat().st_mode):
        raise NotASocket(errno.EEXIST, os.strerror(errno.EEXIST))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fsencode(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except BlockingIOError:
            pass  # alive, with a full backlog
    raise AlreadyServed(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
