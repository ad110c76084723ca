"""The secrets in a home: keys under `keys/NAME.key`, group links under `groups/NAME`, one line each.

Files are 0600 in directories of 0700, written whole, and refused when other users can read them. `node.key` is the
router's key; those of services and apps carry their names. No repr, error or traceback shows a secret: a function that
raises an error holds none. Where several are asked for, one that cannot be used is left out and named in the log.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

from router.core.wire.crypto import KEY_BYTES, PublicKey, SigningKey
from router.core.wire.errors import RouterError
from router.core.wire.grouplink import GroupLink
from router.core.wire.text import KINDS, BadText, key_text, parse_key, without_links
from router.disk import private_file
from router.settings import renewed_keys
from router.settings.kept_files import KeptFiles
from router.settings.secret_lines import key_in, link_in

NODE = "node"
NAME_PATTERN = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}"
NAME_FORM = "1 to 64 letters, digits, dots, dashes or underscores, not beginning with a dot or dash"
KEYS_MAX = 10_000
GROUPS_MAX = 100_000

_SUFFIX = ".key"
_NAME = re.compile(NAME_PATTERN)

Home = os.PathLike[str] | str

log = logging.getLogger(__name__)

MORE_GROUPS = "`router group new NAME` makes one, `router group add LINK` adds one that you were given"


class KeyringError(RouterError):
    """A key or group cannot be read, made or found; the text says which and what to do."""


class NameTaken(KeyringError):
    """Another group has that name."""


def load_or_create(home: Home, name: str) -> SigningKey:
    """Return the key of that name; make and keep a new one if there is none. At most `KEYS_MAX` are made."""
    path = _key_path(home, name)
    key = _read_key(path)
    if key is None:
        if len(names(home)) >= KEYS_MAX:
            raise KeyringError(f"{path.parent} holds {KEYS_MAX} keys, which is the most; remove some first")
        _create(path, secrets.token_bytes(KEY_BYTES).hex())
        key = load(home, name)  # the one that is on disk, which another process may have made just now
    return key


def load(home: Home, name: str) -> SigningKey:
    """Return the key of that name; raise `KeyringError` if there is none or it cannot be read."""
    path = _key_path(home, name)
    key = _read_key(path)
    if key is None:
        raise KeyringError(f'there is no key "{name}" in {path.parent}; {_nearest(name, names(home))}')
    return key


def fault(home: Home, name: str) -> str:
    """Return the fault of the kept key of that name, "" if it can be used or there is none."""
    found = key_in(_key_path(home, name))
    return found if isinstance(found, str) else ""


def names(home: Home) -> list[str]:
    """Return the names of all keys, sorted, also of those that cannot be used."""
    with _listable(Path(home) / "keys") as directory:
        return _KEYS.names(directory)


def addresses(home: Home) -> dict[str, PublicKey]:
    """Return the public halves of all keys that can be used, by name, sorted."""
    with _listable(Path(home) / "keys") as directory:
        return _KEYS.list(directory).values


def made_s(home: Home, name: str) -> int:
    """Return the Unix second at which the key of that name was made, 0 if it is gone."""
    try:
        return int(_key_path(home, name).stat().st_mtime)
    except OSError:
        return 0


def former_addresses(home: Home) -> dict[PublicKey, str]:
    """Return the addresses that were renewed, with the names of their keys."""
    return renewed_keys.former(Path(home) / "keys")


def add_group(home: Home, name: str, link: GroupLink, *, rename: bool = False, replace: bool = False) -> str:
    """Keep the group under that name and return the name it is kept under.

    A known group keeps its name unless `rename` is true, and gains the right to send, and newer hints, if the new link
    brings them. A link whose content key is not the one that is kept is refused unless `replace` is true: one of both
    is damaged, as a group's content key never changes. Raise `NameTaken` if another group has the name, also one that
    another process has made just now. At most `GROUPS_MAX` are kept.
    """
    with _alone(_group_path(home, name)):
        return _add_group(home, name, link, rename=rename, replace=replace)


def add_given_group(home: Home, link: GroupLink) -> str:
    """Keep the group as `add_group` does, under the link's own name, or with a number appended if that is taken; return
    its name."""
    own = name_for(link)
    with _alone(_group_path(home, own)) as directory:
        taken = {*_GROUPS.names(directory)}
        free = (one for one in (own, *(f"{own[:60]}-{at}" for at in range(2, len(taken) + 3))) if one not in taken)
        return _add_group(home, next(free), link)


def remove_group(home: Home, name: str) -> None:
    """Remove the link of the group with that name from the home. Raise `KeyringError` if it cannot be."""
    with _alone(_group_path(home, name)):
        private_file.remove(_group_path(home, name))


def _add_group(home: Home, name: str, link: GroupLink, *, rename: bool = False, replace: bool = False) -> str:
    """Do what `add_group` does, while no other process of ours changes the groups."""
    path = _group_path(home, name)
    known = groups(home)
    before = next((old for old, one in known.items() if one.group == link.group), None)
    if before is not None:
        believed = _believed(before, known[before], link, replace)
        if believed != known[before]:
            _replace(_group_path(home, before), believed.text())
    if before is not None and (before == name or not rename):
        return before
    if name in known:
        raise _taken(name, known[name])
    if before is not None:
        _rename(_group_path(home, before), path)
        return name
    if len(known) >= GROUPS_MAX:
        raise KeyringError(f"{path.parent} holds {GROUPS_MAX} groups, which is the most; remove some first")
    _create(path, link.text())
    kept = _read_group(path)
    if kept is not None and kept != link:  # a program that does not ask for the lock was quicker
        raise _taken(name, kept)
    return name


def _believed(name: str, kept: GroupLink, link: GroupLink, replace: bool) -> GroupLink:
    """Return what is to be kept of a known group and another link to it."""
    if link.content_key != kept.content_key and not replace:
        said = f"this link opens {name} by another key than the link that is kept here, so one of them is damaged"
        raise KeyringError(f"{said}; copy it again, or give --replace to believe the new one")
    gains = link.content_key != kept.content_key or (kept.seed is None and link.seed is not None)
    return (link if gains else kept).with_hints(link.hints or kept.hints)


def _taken(name: str, other: GroupLink) -> NameTaken:
    taken = key_text("group", other.group)
    return NameTaken(f'"{name}" is the name of another group here, {taken}; choose another name')


def name_for(link: GroupLink) -> str:
    """Return the link's own name without characters that no name may have; else one made of the key."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", link.name or "").lstrip(".-").rstrip("-")
    return name or f"group-{link.group.hex()[:8]}"


def groups(home: Home) -> dict[str, GroupLink]:
    """Return all groups that can be used, by name, sorted."""
    with _listable(Path(home) / "groups") as directory:
        return _GROUPS.list(directory).values


def group_names(home: Home) -> dict[bytes, str]:
    """Return the names of all groups that can be used, by their keys; none if they cannot be read."""
    try:
        return {bytes(link.group): name for name, link in groups(home).items()}
    except KeyringError as error:
        log.warning("%s", error)
        return {}


def key_names(home: Home) -> dict[bytes, str]:
    """Return the names of all keys that can be used, by their public halves, also of those that were renewed; none if
    they cannot be read."""
    try:
        former = {bytes(key): name for key, name in former_addresses(home).items()}
        return former | {bytes(key): name for name, key in addresses(home).items()}
    except KeyringError as error:
        log.warning("%s", error)
        return {}


def read_all(home: Home) -> None:
    """Read all keys and groups, so that the log names those that cannot be used, and later looks find the others."""
    for read in (addresses, groups):
        try:
            read(home)
        except KeyringError as error:
            log.warning("%s", error)


def find(home: Home, name_or_key: str) -> tuple[str, GroupLink]:
    """Return the name and link of the group with that name, or with that key as hex or group1… text."""
    with _listable(Path(home) / "groups") as directory:
        if _NAME.fullmatch(name_or_key):
            named = _GROUPS.named(directory, name_or_key)
            if isinstance(named, str):
                raise KeyringError(named)
            if named is not None:
                return name_or_key, named
        try:
            wanted = parse_key(name_or_key, "group")
        except BadText as error:
            raise _unknown_group(name_or_key, error, _GROUPS.names(directory)) from None
        if (found := _GROUPS.keyed(directory, wanted)) is not None:
            return found
    said = f"{key_text('group', wanted)} is no group of this home; `router group add LINK` adds one"
    raise KeyringError(said)


def holds_group(home: Home, name: str) -> bool:
    """Whether the home has a file for the link of the group with that name, which may have a fault. Raise
    `KeyringError`."""
    return os.path.lexists(_group_path(home, name))


def is_at_hand(home: Home, name_or_key: str) -> bool:
    """Whether `find` answers from what this process has read, without reading a file."""
    try:
        key = parse_key(name_or_key, "group")
    except BadText:
        key = None
    return _GROUPS.is_at_hand(Path(home) / "groups", name_or_key, key)


def _unknown_group(text: str, error: BadText, known: list[str]) -> KeyringError:
    key_like = text.strip().lower().startswith(tuple(f"{kind}1" for kind in KINDS))
    said = str(error) if key_like else f"there is no group {_visible(text)}"
    return KeyringError(f"{said}; {_nearest(text, known)}; {MORE_GROUPS}")


@contextmanager
def _listable(directory: Path) -> Iterator[Path]:
    """Word the error if the directory cannot be listed."""
    try:
        yield directory
    except OSError as error:
        said = f"{directory} cannot be read: {error.strerror}"
        raise KeyringError(f"{said}; it must be a directory of the user who runs this") from None


@contextmanager
def _alone(path: Path) -> Iterator[Path]:
    """Hold the directory of a file while what is there is read and changed; make it if it is missing."""
    directory = path.parent
    try:
        private_file.make_directory(directory)
        with private_file.alone(directory):
            yield directory
    except OSError as error:
        said = f"{directory} cannot be changed: {error.strerror}"
        raise KeyringError(f"{said}; it must be a directory of the user who runs this, with room") from None


def _key_path(home: Home, name: str) -> Path:
    return Path(home) / "keys" / (checked(name) + _SUFFIX)


def _group_path(home: Home, name: str) -> Path:
    return Path(home) / "groups" / checked(name)


def checked(name: str) -> str:
    """Return the name; raise `KeyringError` if it cannot be one."""
    if not _NAME.fullmatch(name):
        raise KeyringError(f"{_visible(name)} cannot be a name; a name has {NAME_FORM}")
    return name


def _visible(text: str) -> str:
    """Return a name as typed, for an error, in quotes: short, so that a secret pasted in its place does not get into
    logs; of a link only that it is one."""
    shown = "".join(one if one.isprintable() else "?" for one in text[:24])
    return without_links(f'"{shown}{"…" if len(text) > 24 else ""}"')


def _nearest(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1)
    if near:
        return f'did you mean "{near[0]}"?'
    more = f" and {len(known) - 8} more" if len(known) > 8 else ""
    return f"known are {', '.join(known[:8])}{more}" if known else "none is known yet"


def _create(path: Path, line: str) -> None:
    """Write a new file; one that another process wrote first stays."""
    fault = _written(path, line, new=True)
    if fault is not None:
        del line
        raise KeyringError(fault)


def _replace(path: Path, line: str) -> None:
    fault = _written(path, line, new=False)
    if fault is not None:
        del line
        raise KeyringError(fault)


def _rename(path: Path, to: Path) -> None:
    """Rename a file without overwriting another, and so that no crash loses it."""
    try:
        os.link(path, to)
        path.unlink()
    except OSError as error:
        raise KeyringError(f"{path} cannot be renamed to {to.name}: {error.strerror}") from None


def _written(path: Path, line: str, *, new: bool) -> str | None:
    """Write the line; return the fault as a sentence, None if there is none."""
    try:
        private_file.make_directory(path.parent)
        (private_file.create if new else private_file.replace)(path, line.encode() + b"\n")
    except FileExistsError:
        return None if path.is_file() else f"{path} cannot be made: something else stands there; move it away"
    except OSError as error:
        return f"{path} cannot be written: {error.strerror}; see that there is room and writing is allowed"
    return None


def _address_in(path: Path) -> PublicKey | str | None:
    key = key_in(path)
    return key.public if isinstance(key, SigningKey) else key


def _read_key(path: Path) -> SigningKey | None:
    key = key_in(path)
    if isinstance(key, str):
        raise KeyringError(key)
    return key


def _read_group(path: Path) -> GroupLink | None:
    link = link_in(path)
    if isinstance(link, str):
        raise KeyringError(link)
    return link


_KEYS = KeptFiles(_address_in, bytes, NAME_PATTERN, _SUFFIX)
_GROUPS: KeptFiles[GroupLink] = KeptFiles(link_in, lambda link: link.group, NAME_PATTERN)
