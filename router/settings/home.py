"""The home directory of a node, with its key, configuration, database, event log and socket.

A home belongs to one user (0700) and to one running node (`lock`). Clients find the node by `socket_path`:
`router.sock` in the home, or, if that is longer than a socket's name may be, the path that the node wrote into the
file `socket` there; both sides use the same property.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import re
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from router.core.wire.crypto import digest
from router.core.wire.errors import RouterError
from router.core.wire.text import key_text
from router.disk import private_file
from router.settings import config, keyring
from router.settings.config_services import NOBODY, Residents
from router.settings.default_home import VARIABLE, default_home

WRITABLE = 0o022
LET_GO_S, LET_GO_POLL_S = 5.0, 0.02
"""How long to wait for the lock of a process that was killed: a child that it was starting just then lets go of it
when that runs its own program."""
log = logging.getLogger(__name__)

VOLUME = "ROUTER_VOLUME"
"""The environment variable by which an image of a container names the folder where a volume has to be mounted."""
SOCKET_NAME = "router.sock"
SOCKET_PATH_BYTES_MAX = 103 if sys.platform == "darwin" else 107
_ELSEWHERE = f"choose another with --home DIR or {VARIABLE}"


class HomeError(RouterError):
    """The home cannot be used; the text says why and what to do."""


class HomeBusy(HomeError):
    """Another process holds this home."""


class Home:
    """The home at a path, usable as a path; the disk is not touched before `create`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            self.path = Path(path).expanduser().resolve()
        except (OSError, RuntimeError) as error:
            raise HomeError(f"the home {path} cannot be found: {error}; {_ELSEWHERE}") from None

    @classmethod
    def chosen(cls, option: str | os.PathLike[str] | None = None) -> Home:
        """Return the home that `--home` names, else `ROUTER_HOME`, else the platform's user data directory."""
        return cls(option or default_home())

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"<home {self.path}>"

    @property
    def config_path(self) -> Path:
        return self.path / config.FILE_NAME

    @property
    def key_path(self) -> Path:
        """The path of the router's key."""
        return self.path / "keys" / f"{keyring.NODE}.key"

    @property
    def holds_node(self) -> bool:
        """Whether the node's key, which is its identity, exists."""
        return self._holds(self.key_path)

    @property
    def holds_settings(self) -> bool:
        """Whether there is a `router.toml`."""
        return self._holds(self.config_path)

    def _holds(self, path: Path) -> bool:
        try:
            return path.exists()
        except OSError as error:
            said = f"the home {self.path} cannot be read: {error.strerror}"
            raise HomeError(f"{said}; run this as the user it belongs to, or {_ELSEWHERE}") from None

    @property
    def store_path(self) -> Path:
        return self.path / "store"

    @property
    def log_path(self) -> Path:
        return self.path / "log"

    @property
    def lock_path(self) -> Path:
        return self.path / "lock"

    @property
    def socket_path(self) -> Path:
        """The path where the owner's socket is or will be, the same for the node and its clients."""
        usual = self.path / SOCKET_NAME
        return usual if _fits(usual) else _recorded(self.path / "socket") or self._short_socket_path()

    def create(
        self,
        role: config.Role = "edge",
        listen: tuple[str, ...] = (),
        residents: Residents = NOBODY,
        advertise: tuple[str, ...] = (),
        name: str = "",
    ) -> bool:
        """Make all that is missing, with a commented `router.toml`; return whether that file is new. Raise `HomeError`,
        or `StoreError` before anything is changed, see `check_format`.

        `residents`: the services that it names."""
        _check_volume(self.path)
        self.check_format()
        try:
            if not self.config_path.exists():
                _check_owner(self.path)
            self._take()
            self.check_key()
            for directory in (self.key_path.parent, self.path / "groups", self.store_path, self.log_path):
                private_file.make_directory(directory)
            if not self.config_path.exists():
                text = config.sample(role, listen, residents, advertise, name)
                private_file.create(self.config_path, text.encode())
                return True
        except FileExistsError as error:
            path = Path(error.filename2 or error.filename)
            if path == self.config_path and path.is_file():  # Another process was quicker.
                return False
            if path.is_symlink() and not path.exists():
                said = f"{path} is a symbolic link to {path.readlink()}, which is not there"
                raise HomeError(f"{said}; make that file or directory, or remove the link") from None
            raise HomeError(f"{path} is in the way of the home {self.path}; move it away, or {_ELSEWHERE}") from None
        except OSError as error:
            said = f"the home {self.path} cannot be written: {error.strerror} ({error.filename})"
            raise HomeError(f"{said}; make it writable or {_ELSEWHERE}") from None
        return False

    @contextmanager
    def lock(self) -> Iterator[HeldHome]:
        """Hold the home for one node; raise `HomeBusy` if another process holds it.

        The lock ends with the process, however it ends. A child made by fork shares it until it ends as well.
        """
        descriptor = self._locked()
        try:
            _note(descriptor, f"{os.getpid()}\n")
            yield HeldHome(self, descriptor)
            _note(descriptor, "")
        finally:
            os.close(descriptor)

    def why_no_socket(self) -> str:
        """Return what is to be said of a socket that is not there while a process holds the home; "" otherwise."""
        if os.path.lexists(self.socket_path) or not (pid := self.holder):
            return ""
        said = f"there is no socket {self.socket_path}, though pid {pid} holds this home"
        return f"{said}; a node that starts, or whose socket file somebody removed, makes it within seconds: try again"

    def is_held(self) -> bool:
        """Return whether a process holds the home."""
        return bool(self.holder)

    @property
    def holder(self) -> str:
        """Return the pid of the process that holds the home, "" if none does."""
        try:
            descriptor = os.open(self.lock_path, os.O_RDONLY)
        except OSError:
            return ""
        try:
            pid = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
            return _try_lock(descriptor) if pid and not _has_ended(pid) else ""
        except OSError:
            return ""
        finally:
            os.close(descriptor)

    def prepare_socket(self) -> Path:
        """Return `socket_path` for the node that will listen there. Outside the home its directory is made private and
        the path is recorded."""
        path = self.socket_path
        record = self.path / "socket"
        try:
            if path.parent == self.path:
                record.unlink(missing_ok=True)
                return path
            path = self._short_socket_path()
            private_file.make_directory(path.parent)
            _check_private(path.parent)
            private_file.replace(record, os.fsencode(path) + b"\n")
        except OSError as error:
            said = f"the socket {path} cannot be prepared: {error.strerror}"
            raise HomeError(f"{said}; set XDG_RUNTIME_DIR, or choose a shorter --home") from None
        return path

    def clear_socket(self) -> None:
        """Remove the directory that `prepare_socket` made outside the home, and its record, after the node stopped."""
        directory = self.socket_path.parent
        if directory != self.path:
            with suppress(OSError):  # The directory may hold another file, which stays.
                directory.rmdir()
                (self.path / "socket").unlink(missing_ok=True)

    def listen_urls(self, listen: Iterable[str]) -> tuple[str, ...]:
        """Return the URLs where the node listens, each once and with absolute Unix paths: `unix:router.sock` is the
        owner's socket, prepared; others are relative to the home."""
        return tuple(dict.fromkeys(self._listen_url(url) for url in listen))

    def _listen_url(self, url: str) -> str:
        scheme, _, rest = url.partition(":")
        if scheme != "unix":
            return url
        if url == config.OWNER_URL:
            return f"unix://{self.prepare_socket()}"
        path = self.path / rest.removeprefix("//")
        if not _fits(path):
            said = f"the socket path {path} has {len(os.fsencode(path))} bytes"
            raise HomeError(f"{said}; at most {SOCKET_PATH_BYTES_MAX} work: name a shorter one in {url}")
        return f"unix://{path}"

    def _take(self) -> None:
        """Make or take over the directory; one that others can enter must be empty or a home."""
        private_file.make_directory(self.path)
        mode = stat.S_IMODE(self.path.stat().st_mode)
        if mode & private_file.OTHERS:
            if any(self.path.iterdir()) and not self.config_path.exists():
                said = f"{self.path} holds files that are not a node's, and others may open it (mode {mode:03o})"
                raise HomeError(f"{said}; a home holds secret keys: chmod 700 {self.path}, or {_ELSEWHERE}")
            self.path.chmod(private_file.DIRECTORY_MODE)
            if mode & WRITABLE or self.key_path.exists():
                log.warning(
                    "%s was open to others (mode %03o): it is 700 now; see what they left there", self.path, mode
                )

    def check_format(self) -> None:
        """Raise `StoreError` if another version of the program wrote the store in a format that this one does not
        read: then nothing of the home may be changed. It only reads."""
        _load_and_check_format(self.store_path, is_open=bool(self.holder))

    def check_key(self) -> None:
        """Raise `HomeError` if there is a store but not its router's key: a new key would be another router's."""
        if not self.holds_node and (owner := _load_owner(self.store_path)):
            said = f"the store in {self.store_path} belongs to {key_text('addr', owner)}; its key is missing"
            raise HomeError(f"{said}: restore {self.key_path}, or move store/ and log/ away to begin anew")

    def _locked(self) -> int:
        try:
            descriptor = os.open(self.lock_path, os.O_RDWR | os.O_CREAT, private_file.FILE_MODE)
        except OSError as error:
            said = f"the home {self.path} cannot be locked: {error.strerror}"
            remedy = "make it with `router init`" if error.errno == errno.ENOENT else "make it writable for this user"
            raise HomeError(f"{said}; {remedy}, or {_ELSEWHERE}") from None
        try:
            holder = _try_lock(descriptor)
            until_s = time.monotonic() + LET_GO_S
            while holder and _has_ended(holder) and time.monotonic() < until_s:
                time.sleep(LET_GO_POLL_S)
                holder = _try_lock(descriptor)
        except OSError as error:
            os.close(descriptor)
            said = f"the home {self.path} cannot be locked: {error.strerror}"
            raise HomeError(f"{said}; it must be on a file system with file locks") from None
        if holder:
            os.close(descriptor)
            said = f"{self.path} is in use by pid {holder}, another node or a command that reads it"
            raise HomeBusy(f"{said}; stop it or let it end first, or {_ELSEWHERE}")
        return descriptor

    def _short_socket_path(self) -> Path:
        """Return a path for this user and home, under XDG_RUNTIME_DIR if that is short enough, else under /tmp."""
        name = digest(os.fsencode(self.path)).hex()[:16]
        runtime = os.environ.get("XDG_RUNTIME_DIR", "")
        path = Path(runtime) / f"router-{name}" / SOCKET_NAME
        if Path(runtime).is_absolute() and _fits(path):
            return path
        return Path("/tmp") / f"router-{os.geteuid()}-{name}" / SOCKET_NAME


class HeldHome:
    """A home while its lock is held, which may be renamed or removed meanwhile."""

    def __init__(self, home: Home, descriptor: int) -> None:
        self._home = home
        self._descriptor = descriptor

    def check_in_place(self) -> None:
        """Raise `HomeError` if the home is not at its path any more."""
        with suppress(OSError):
            if os.path.samestat(os.fstat(self._descriptor), self._home.lock_path.stat()):
                return
        said = f"the home {self._home.path} was renamed or removed while its node ran"
        remedy = "start the node where the home is now, with --home DIR, or move it back first"
        raise HomeError(f"{said}, so nothing more can be kept there; {remedy}")

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raise `HomeError` in place of the block's error if the home is not there any more; remove the directory that
        a socket file which was made again has left there."""
        try:
            yield
        except Exception:
            try:
                self.check_in_place()
            except HomeError:
                with suppress(OSError):  # it is not there, or another home
                    self._home.path.rmdir()
                raise
            raise


def _check_volume(path: Path) -> None:
    """Raise `HomeError` if the home would lie in a container's own layer, which goes with the container."""
    volume = os.environ.get(VOLUME, "")
    if volume and path.is_relative_to(volume) and not _is_mounted(volume):
        said = f"no volume is mounted at {volume}, so the home {path} and its key would go with this container"
        raise HomeError(f"{said}; run it with one, for example `--volume router:{volume}`, or {_ELSEWHERE}")


def _check_owner(path: Path) -> None:
    """Raise `HomeError` if the superuser would make a home in another user's place, as by `sudo router init`."""
    if why_not := private_file.why_not_by_root(path):
        raise HomeError(f"{why_not}, or {_ELSEWHERE}")


def _is_mounted(folder: str) -> bool:
    """Whether something is mounted at the folder, also if it is of the same file system as the folder above, which
    `os.path.ismount` does not see: so it is where containers are kept as plain directories (the storage driver vfs)."""
    with suppress(OSError):
        if is_mount_point(Path("/proc/self/mountinfo").read_text(errors="replace"), os.path.realpath(folder)):
            return True
    return os.path.ismount(folder)  # the root of a chroot is in no list


def is_mount_point(mountinfo: str, folder: str) -> bool:
    """Whether that text (proc_pid_mountinfo(5), where some characters are octal numbers) lists the folder."""
    places = (line.split(" ", 5)[4] for line in mountinfo.splitlines())
    return any(re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), one) == folder for one in places)


def _load_and_check_format(store: Path, *, is_open: bool) -> None:
    from router.disk.store.file import check_format

    check_format(store, is_open=is_open)


def _load_owner(store: Path) -> bytes | None:
    from router.disk.store.file import owner

    return owner(store)


def _try_lock(descriptor: int) -> str:
    """Lock the file; return "" if that was possible, else the pid that its holder wrote into it, or "unknown"."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
    return ""


def _has_ended(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (ValueError, OverflowError, PermissionError):
        return False
    return False


def _note(descriptor: int, text: str) -> None:
    """Write our pid into the lock file, for people; a failure, as on a full disk, is ignored."""
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(), 0)


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) <= SOCKET_PATH_BYTES_MAX


def _recorded(record: Path) -> Path | None:
    """Return the recorded path of the socket; None if there is no record, or the path cannot be a socket's."""
    try:
        path = Path(os.fsdecode(private_file.read(record, 4096).rstrip(b"\n")))
    except (OSError, private_file.Exposed):
        return None
    return path if path.is_absolute() and _fits(path) else None


def _check_private(directory: Path) -> None:
    """Raise `HomeError` unless the directory is ours alone, because any user may have made it under /tmp first."""
    found = directory.lstat()
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    if not ours or found.st_mode & private_file.OTHERS:
        said = f"{directory} is not a private directory of this user (mode {stat.S_IMODE(found.st_mode):03o})"
        raise HomeError(f"{said}; remove it, set XDG_RUNTIME_DIR, or choose a shorter --home")
