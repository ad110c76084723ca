"""Secret values of a state, sealed under a key in a file of its own, so that they can be forgotten.

LMDB keeps deleted values in pages that it has freed, and so do snapshots of the file. Nothing of a secret value lies
there but XChaCha20-Poly1305 ciphertext, bound to its row. To forget what was deleted, the key is replaced: all values
that stay are sealed anew in one transaction, and the old key's file is overwritten.

    secrets.key       the key in force
    secrets.key.new   the next one, while it is being put in place: `meta` names the one in force by its id

A crash leaves one of the two files with the key that `meta` names; the next opening removes the other.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from nacl import bindings
from nacl.exceptions import CryptoError

from router.disk import private_file
from router.disk.state.environment import Environment, StateError

KEY_FILE, NEXT_FILE = "secrets.key", "secrets.key.new"
KEY_BYTES, KEY_ID_BYTES, NONCE_BYTES = 32, 8, 24
KEY_ROW = b"secrets"
AT_ONCE = 1_000
_LINE = re.compile(rb"router secrets 1 ([0-9a-f]{16}) ([0-9a-f]{64})\n")
_LINE_BYTES = 99
_ANEW = "move the state away to begin anew"


class KeyReplaced(StateError):
    """The key that has sealed the secrets is not there: another process has replaced it since this transaction began,
    or the folder is not of one moment. Who reads again tells which."""


class SecretKey(Struct, frozen=True):
    """A key that seals secrets, and the id by which `meta` names it."""

    id: bytes
    key: bytes = field(default=b"")

    def __repr__(self) -> str:
        return f"<secret key {self.id.hex()}>"

    def line(self) -> bytes:
        """Return the content of its file."""
        return b"router secrets 1 %b %b\n" % (self.id.hex().encode(), self.key.hex().encode())


class Secrets:
    """The secret rows of one state, in the table `table`. Every method but `finish` belongs to a transaction."""

    def __init__(self, environment: Environment, table: str) -> None:
        self._folder = environment.path
        self._db, self._meta = environment.db[table], environment.db["meta"]
        self._known = SecretKey(b"")

    def __repr__(self) -> str:
        return f"<secrets in {self._folder}>"

    # -- rows ----------------------------------------------------------------------------------------------

    def get(self, txn: Any, row: bytes) -> bytes | None:
        """Return the value of a row, None if there is none. Raise `StateError`."""
        sealed = txn.get(row, db=self._db)
        return None if sealed is None else self._unseal(self._key(txn), row, bytes(sealed))

    def put(self, txn: Any, row: bytes, value: bytes) -> None:
        """Write a value; the first one makes the key's file."""
        key = self._key(txn) if txn.get(KEY_ROW, db=self._meta) else self._first_key(txn)
        txn.put(row, _seal(key, row, value), db=self._db)

    def delete(self, txn: Any, row: bytes) -> None:
        """Remove a row. What it held can be read, by whoever has the key, until `renew`."""
        txn.delete(row, db=self._db)

    def under(self, txn: Any, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows that begin so, each with its value, in order."""
        key = None
        for row, sealed in self._sealed_from(txn, prefix):
            if not row.startswith(prefix):
                break
            key = key or self._key(txn)
            yield row, self._unseal(key, row, sealed)

    def rows(self, txn: Any) -> list[bytes]:
        """Return all rows without their values."""
        return [bytes(row) for row in txn.cursor(self._db).iternext(values=False)]

    def _sealed_from(self, txn: Any, row: bytes) -> Iterator[tuple[bytes, bytes]]:
        cursor = txn.cursor(self._db)
        if cursor.set_range(row):
            yield from ((bytes(key), bytes(value)) for key, value in cursor)

    # -- the key -------------------------------------------------------------------------------------------

    def renew(self, txn: Any) -> bytes:
        """Seal all values under a new key, whose file is written; return its id for `finish`, b"" if there is none."""
        if not txn.get(KEY_ROW, db=self._meta):
            return b""
        self.settle(txn)
        old, new = self._key(txn), _new_key()
        _write(self._folder / NEXT_FILE, new.line())
        last = b""
        while some := list(islice(self._sealed_from(txn, last + b"\0" if last else b""), AT_ONCE)):
            for row, sealed in some:
                txn.put(row, _seal(new, row, self._unseal(old, row, sealed)), db=self._db)
            last = some[-1][0]
        txn.put(KEY_ROW, new.id, db=self._meta)
        return new.id

    def finish(self, id: bytes) -> None:
        """Once the transaction of `renew` is on disk: overwrite the old key, and put the new one in its place."""
        with private_file.alone(self._folder):  # who reads as of before goes on with the old key, which is known
            _put_in_place(self._folder, id)

    def settle(self, txn: Any) -> None:
        """Finish what a crash has left: put the key in force in its place, and overwrite any other."""
        if not os.path.lexists(self._folder / NEXT_FILE):
            return
        with private_file.alone(self._folder):
            _put_in_place(self._folder, bytes(txn.get(KEY_ROW, db=self._meta) or b""))
            if os.path.lexists(self._folder / NEXT_FILE):  # of a transaction that was not committed
                private_file.erase(self._folder / NEXT_FILE)

    def _first_key(self, txn: Any) -> SecretKey:
        with private_file.alone(self._folder):
            for name in (KEY_FILE, NEXT_FILE):
                if os.path.lexists(self._folder / name):  # of a transaction that was not committed
                    private_file.erase(self._folder / name)
            self._known = _new_key()
            _write(self._folder / KEY_FILE, self._known.line())
        txn.put(KEY_ROW, self._known.id, db=self._meta)
        return self._known

    def _key(self, txn: Any) -> SecretKey:
        """Return the key in force, which another process may have replaced."""
        id = bytes(txn.get(KEY_ROW, db=self._meta) or b"")
        if self._known.id != id or not id:
            with private_file.alone(self._folder):
                found = [_read(self._folder / name) for name in (KEY_FILE, NEXT_FILE)]
            known = next((one for one in found if one is not None and one.id == id), None)
            if known is None:
                said = f"the secrets of the state in {self._folder} cannot be opened: {self._folder / KEY_FILE}"
                remedy = f"restore folder and key of one moment, or {_ANEW}"
                raise KeyReplaced(f"{said} is not the key that has sealed them; {remedy}")
            self._known = known
        return self._known

    def _unseal(self, key: SecretKey, row: bytes, sealed: bytes) -> bytes:
        nonce, rest = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        try:
            return bindings.crypto_aead_xchacha20poly1305_ietf_decrypt(rest, row, nonce, key.key)
        except (CryptoError, ValueError):
            said = f"a secret of the state in {self._folder} was changed: it cannot be opened"
            raise StateError(f"{said}; see to its disk, and restore the folder, or {_ANEW}") from None


def _new_key() -> SecretKey:
    return SecretKey(os.urandom(KEY_ID_BYTES), os.urandom(KEY_BYTES))


def _seal(key: SecretKey, row: bytes, value: bytes) -> bytes:
    nonce = os.urandom(NONCE_BYTES)
    return nonce + bindings.crypto_aead_xchacha20poly1305_ietf_encrypt(value, row, nonce, key.key)


def _put_in_place(folder: Path, id: bytes) -> None:
    """Make the key with that id the only one, if its file is the next one; otherwise it is in place already."""
    at, after = folder / KEY_FILE, folder / NEXT_FILE
    new, old = _read(after), _read(at)
    if new is not None and new.id == id and (old is None or old.id != id):
        if os.path.lexists(at):
            private_file.overwrite(at)
        after.rename(at)  # which need not be on disk: a key is found under either name


def _read(path: Path) -> SecretKey | None:
    """Return the key in a file; None if there is none, or no whole one."""
    if path.is_symlink():
        raise StateError(f"{path} is a symbolic link, and a key that can be forgotten is a file: put it there itself")
    try:
        found = _LINE.fullmatch(private_file.read(path, _LINE_BYTES))
    except FileNotFoundError:
        return None
    except private_file.Exposed as exposed:
        said = f"{path} can be read by others (mode {exposed.mode:03o})"
        raise StateError(f"{said}; run: chmod 600 {path}") from None
    except OSError as error:
        said = f"{path} cannot be read: {error.strerror}; it must be a file of the user who runs this"
        raise StateError(f"{said}; put it back, or {_ANEW}") from None
    return None if found is None else SecretKey(*(bytes.fromhex(one.decode()) for one in found.groups()))


def _write(path: Path, line: bytes) -> None:
    """Write a key's file, in place of one that an earlier attempt has left."""
    if os.path.lexists(path):
        private_file.erase(path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, private_file.FILE_MODE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(line)
        file.flush()
        os.fsync(descriptor)
    private_file.sync_directory(path.parent)
