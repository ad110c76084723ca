"""The renewal of a kept key in the files of a home: the new key is made beside the old one, and takes its place when
the node has taken it.

    keys/NAME.key         the key with which the app signs on
    keys/NAME.renewing    a renewal that has begun: the new key and the statement; gone when it is finished
    keys/NAME.renewing-elsewhere    the same of a key with which the app signs on to the node of another home, so that
                                    none of this home takes it
    keys/NAME.renewed     the statements of the renewals that are finished, the newest last

A crash at any step leaves a renewal that has not begun, or one that the node finishes when it starts. The key of a
service takes its place at a start of the node (`rotate`).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from router.core.wire.crypto import KEY_BYTES, PublicKey, SigningKey
from router.core.wire.errors import RouterError
from router.core.wire.renewal import READ_S, RENEWAL_BYTES_MAX, Renewal, decode_renewal, encode_renewal, make_renewal
from router.disk import private_file
from router.settings.secret_lines import key_in

HERE, ELSEWHERE = "renewing", "renewing-elsewhere"
RENEWED_MAX = 64
"""The most former addresses that are remembered of a name; the oldest are forgotten."""

OF_ANOTHER = "renews another key than the one that has this name now; move it away, or put back the key it is of"

_BEGUN = re.compile(rb"([0-9a-f]{64}) ([0-9a-f]+)\n")
_LINE_BYTES_MAX = 2 * RENEWAL_BYTES_MAX + 2 * KEY_BYTES + 2


class RenewalError(RouterError):
    """A key cannot be renewed; the text says why and what to do."""


class BegunRenewal(Struct, frozen=True):
    """A renewal that has begun: the statement, and the key that is to take the old one's place."""

    statement: Renewal
    new: SigningKey


def begin(keys: Path, name: str, load: Callable[[], SigningKey], now_s: int, kind: str = HERE) -> Renewal:
    """Make the new key of a name and the statement of its renewal; return the statement of one that has begun
    already. `load` returns the key as it is then: another process may have renewed it just now. `kind`: whether the
    node of this home takes it, or one `ELSEWHERE`."""
    with _alone(keys, name):
        if _path(keys, name, other := ELSEWHERE if kind == HERE else HERE).exists():
            where = "with the --url that was given then" if other == ELSEWHERE else "without --url, while the node runs"
            raise RenewalError(f"a renewal of {name} has begun already; finish it: repeat the command {where}")
        begun = _begun(keys, name, kind)
        if begun is None:
            old = load()
            new = SigningKey(secrets.token_bytes(KEY_BYTES))
            begun = BegunRenewal(make_renewal(old, new, now_s, now_s + READ_S), new)
            line = f"{new.seed.hex()} {encode_renewal(begun.statement).hex()}\n"
            private_file.create(_path(keys, name, kind), line.encode())
        return begun.statement


def begun(keys: Path, problem: Callable[[str], object] | None = None) -> dict[str, Renewal]:
    """Return the statements of the renewals that have begun and are not finished, by name. `problem` gets a sentence on
    each that cannot be read; without it, raise `RenewalError`."""
    found = {}
    for path in sorted(keys.glob("*.renewing")) if keys.is_dir() else ():
        name = path.name.removesuffix(".renewing")
        try:
            one = _begun(keys, name)
        except RenewalError as error:
            if problem is None:
                raise
            problem(str(error))
            continue
        if one is not None:
            found[name] = one.statement
    return found


def finish(keys: Path, name: str, taken: Renewal, kind: str = HERE) -> None:
    """Let the new key take the place of the old one, once the node has taken this renewal; nothing if it is not the one
    that has begun."""
    with _alone(keys, name):
        begun = _begun(keys, name, kind)
        if begun is None or begun.statement != taken:
            return
        known = statements(keys, name)
        if begun.statement not in known:
            lines = [encode_renewal(one).hex() for one in (*known, begun.statement)][-RENEWED_MAX:]
            private_file.replace(_path(keys, name, "renewed"), "".join(f"{one}\n" for one in lines).encode())
        private_file.replace(_path(keys, name, "key"), f"{begun.new.seed.hex()}\n".encode())
        private_file.remove(_path(keys, name, kind))


def rotate(keys: Path, name: str) -> Renewal | None:
    """Let a service sign on by its new key from now on, if a renewal of it has begun, and return the statement: a node
    that starts moves what the old key has, and finishes the renewal when that is committed. May be repeated."""
    with _alone(keys, name):
        begun = _begun(keys, name)
        if begun is None:
            return None
        private_file.replace(_path(keys, name, "key"), f"{begun.new.seed.hex()}\n".encode())
        return begun.statement


def give_up(keys: Path, name: str, refused: Renewal, kind: str = HERE) -> None:
    """Forget the renewal that the node has refused; nothing if it is not the one that has begun."""
    with _alone(keys, name):
        begun = _begun(keys, name, kind)
        if begun is None or begun.statement != refused:
            return
        private_file.remove(_path(keys, name, kind))


def former(keys: Path) -> dict[PublicKey, str]:
    """Return the names of the addresses that were renewed, without those that cannot be read."""
    found: dict[PublicKey, str] = {}
    for path in sorted(keys.glob("*.renewed")) if keys.is_dir() else ():
        name = path.name.removesuffix(".renewed")
        try:
            found |= {one.old: name for one in statements(keys, name)}
        except RenewalError:
            continue  # it only names addresses of the past
    return found


def _begun(keys: Path, name: str, kind: str = HERE) -> BegunRenewal | None:
    """Return the renewal that has begun; raise `RenewalError` if it cannot be read. Holds no secret then."""
    path = _path(keys, name, kind)
    found = _read(path)
    if isinstance(found, str):
        raise RenewalError(f"{path} {found}")
    return found


def _read(path: Path) -> BegunRenewal | str | None:
    """Return the renewal in the file, None if there is none, or the fault. Raises no error that holds the key."""
    try:
        line = private_file.read(path, _LINE_BYTES_MAX)
    except FileNotFoundError:
        return None
    except private_file.Exposed as exposed:
        return f"can be read by others (mode {exposed.mode:03o}); run: chmod 600 {path}"
    except OSError as error:
        return f"cannot be read: {error.strerror}; it must be a file of the user who runs this"
    parts = _BEGUN.fullmatch(line)
    if parts is not None:
        new = SigningKey(bytes.fromhex(parts[1].decode()))
        with suppress(ValueError):
            statement = decode_renewal(bytes.fromhex(parts[2].decode()))
            if statement.new == new.public and statement.verify():
                return BegunRenewal(statement, new) if _is_of(path, statement) else OF_ANOTHER
    said = f"should hold a renewal that has begun, and holds {len(line)} other bytes"
    return f"{said}; restore it, or move it away: then the key is not renewed, unless the node has taken it already"


def _is_of(path: Path, statement: Renewal) -> bool:
    """Whether the key beside the renewal is the one that is renewed, or the new one in its place, or is missing."""
    key = key_in(path.with_suffix(".key"))
    return not isinstance(key, SigningKey) or key.public in (statement.old, statement.new)


def statements(keys: Path, name: str) -> list[Renewal]:
    """Return the finished renewals of a name, the newest last. Raise `RenewalError` if they cannot be read."""
    path = _path(keys, name, "renewed")
    try:
        text = private_file.read(path, RENEWED_MAX * _LINE_BYTES_MAX)
        return [decode_renewal(bytes.fromhex(line)) for line in text.decode("ascii").split()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RenewalError(f"{path} cannot be read: {error.strerror}") from None
    except private_file.Exposed as exposed:
        raise RenewalError(f"{path} can be read by others (mode {exposed.mode:03o}); run: chmod 600 {path}") from None
    except ValueError:
        said = f"{path} should hold the renewals of the key, and is damaged"
        raise RenewalError(f"{said}; move it away: only the names of former addresses stand there") from None


@contextmanager
def _alone(keys: Path, name: str) -> Iterator[None]:
    """Hold the keys while a renewal is taken a step further, and word errors."""
    try:
        with private_file.alone(keys):
            yield
    except private_file.Exposed as exposed:
        said = f"{exposed.path} can be read by others (mode {exposed.mode:03o})"
        raise RenewalError(f"{said}; run: chmod 600 {exposed.path}") from None
    except OSError as error:
        said = f"the key {name} cannot be renewed in {keys}: {error.strerror}"
        raise RenewalError(f"{said}; see that there is room and writing is allowed, and repeat it") from None


def _path(keys: Path, name: str, kind: str) -> Path:
    return keys / f"{name}.{kind}"
