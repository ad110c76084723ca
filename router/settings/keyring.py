"""The secrets in a home: keys under `keys/NAME.key`, group links under `groups/NAME`, one line each.

Files are 0600 in directories of 0700, written whole, and refused when other users can read them. `node.key` is the
router's key; those of services and apps carry their names. No repr, error or traceback shows a secret: a function that
raises an error holds none.
"""

from __future__ import annotations

import os
import re
import secrets
from difflib import get_close_matches
from pathlib import Path

from router.core.wire.crypto import KEY_BYTES, SigningKey
from router.core.wire.errors import RouterError
from router.core.wire.grouplink import GroupLink, parse_link
from router.core.wire.link_text import LINK_CHARACTERS_MAX
from router.core.wire.text import KINDS, BadText, key_text, parse_key
from router.disk import private_file

NODE = "node"
NAME_PATTERN = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}"
NAME_FORM = "1 to 64 letters, digits, dots, dashes or underscores, not beginning with a dot or dash"
KEYS_MAX = 10_000
GROUPS_MAX = 100_000

_SUFFIX = ".key"
_SEED_LINE = re.compile(rb"([0-9a-fA-F]{64})\s*")

Home = os.PathLike[str] | str


MORE_GROUPS = "`router group new NAME` makes one, `router group add LINK` adds one that you were given"


class KeyringError(RouterError):
    """A key or group cannot be read, made or found; the text says which and what to do."""


def load_or_create(home: Home, name: str) -> SigningKey:
    """Return the key of that name; make and keep a new one if there is none. At most `KEYS_MAX` are made."""
    path = _key_path(home, name)
    key = _read_key(path)
    if key is None:
        if len(names(home)) >= KEYS_MAX:
            raise KeyringError(f"{path.parent} holds {KEYS_MAX} keys, which is the most; remove some first")
        _create(path, secrets.token_bytes(KEY_BYTES).hex())
        key = load(home, name)
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
    found = _key_in(_key_path(home, name))
    return found if isinstance(found, str) else ""


def names(home: Home) -> list[str]:
    """Return the names of all keys, sorted."""
    return _names_in(Path(home) / "keys", _SUFFIX)


def add_group(home: Home, name: str, link: GroupLink, *, rename: bool = False, replace: bool = False) -> str:
    """Keep the group under that name and return the name it is kept under.

    A known group keeps its name unless `rename` is true, and gains the right to send, and newer hints, if the new link
    brings them. A link whose content key is not the one that is kept is refused unless `replace` is true: one of both
    is damaged, as a group's content key never changes. At most `GROUPS_MAX` are kept.
    """
    path = _group_path(home, name)
    known = groups(home)
    before = next((old for old, one in known.items() if one.group == link.group), None)
    if before is not None:
        kept = known[before]
        if link.content_key != kept.content_key and not replace:
            said = f"this link opens {before} by another key than the link that is kept here, so one of them is damaged"
            raise KeyringError(f"{said}; copy it again, or give --replace to believe the new one")
        gains = link.content_key != kept.content_key or (kept.seed is None and link.seed is not None)
        believed = (link if gains else kept).with_hints(link.hints or kept.hints)
        if believed != kept:
            _replace(_group_path(home, before), believed.text())
    if before is not None and (before == name or not rename):
        return before
    if name in known:
        taken = key_text("group", known[name].group)
        raise KeyringError(f'"{name}" is the name of another group here, {taken}; choose another name')
    if before is not None:
        _rename(_group_path(home, before), path)
        return name
    if len(known) >= GROUPS_MAX:
        raise KeyringError(f"{path.parent} holds {GROUPS_MAX} groups, which is the most; remove some first")
    _create(path, link.text())
    return name


def name_for(link: GroupLink) -> str:
    """Return the link's own name without characters that no name may have; else one made of the key."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", link.name or "").lstrip(".-").rstrip("-")
    return name or f"group-{link.group.hex()[:8]}"


def groups(home: Home) -> dict[str, GroupLink]:
    """Return all groups by name, sorted."""
    found = ((name, _read_group(_group_path(home, name))) for name in _names_in(Path(home) / "groups", ""))
    return {name: link for name, link in found if link is not None}


def find(home: Home, name_or_key: str) -> tuple[str, GroupLink]:
    """Return the name and link of the group with that name, or with that key as hex or group1… text."""
    named = _read_group(_group_path(home, name_or_key)) if re.fullmatch(NAME_PATTERN, name_or_key) else None
    if named is not None:
        return name_or_key, named
    known = groups(home)
    try:
        wanted = parse_key(name_or_key, "group")
    except BadText as error:
        key_like = name_or_key.strip().lower().startswith(tuple(f"{kind}1" for kind in KINDS))
        said = str(error) if key_like else f'there is no group "{_visible(name_or_key)}"'
        raise KeyringError(f"{said}; {_nearest(name_or_key, list(known))}; {MORE_GROUPS}") from None
    for name, link in known.items():
        if link.group == wanted:
            return name, link
    said = f"{key_text('group', wanted)} is no group of this home; `router group add LINK` adds one"
    raise KeyringError(said)


def _names_in(directory: Path, suffix: str) -> list[str]:
    try:
        files = [one.name for one in directory.iterdir() if one.name.endswith(suffix)]
    except FileNotFoundError:
        return []
    except OSError as error:
        said = f"{directory} cannot be read: {error.strerror}"
        raise KeyringError(f"{said}; it must be a directory of the user who runs this") from None
    found = (file.removesuffix(suffix) for file in files)
    return sorted(name for name in found if re.fullmatch(NAME_PATTERN, name))


def _key_path(home: Home, name: str) -> Path:
    return Path(home) / "keys" / (checked(name) + _SUFFIX)


def _group_path(home: Home, name: str) -> Path:
    return Path(home) / "groups" / checked(name)


def checked(name: str) -> str:
    """Return the name; raise `KeyringError` if it cannot be one."""
    if not re.fullmatch(NAME_PATTERN, name):
        raise KeyringError(f'"{_visible(name)}" cannot be a name; a name has {NAME_FORM}')
    return name


def _visible(text: str) -> str:
    """Return a name as typed, for an error: short, so that a secret pasted in its place does not get into logs."""
    shown = "".join(one if one.isprintable() else "?" for one in text[:24])
    return shown + ("…" if len(text) > 24 else "")


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


def _read_key(path: Path) -> SigningKey | None:
    key = _key_in(path)
    if isinstance(key, str):
        raise KeyringError(key)
    return key


def _read_group(path: Path) -> GroupLink | None:
    link = _link_in(path)
    if isinstance(link, str):
        raise KeyringError(link)
    return link


def _key_in(path: Path) -> SigningKey | str | None:
    """Return the key, None if there is none, or the fault as a sentence. Raises nothing, so that no traceback holds the
    line."""
    line = _content(path, 2 * KEY_BYTES + 64)
    if line is None or isinstance(line, str):
        return line
    found = _SEED_LINE.fullmatch(line)
    if found is None:
        said = f"{path} should hold a key, one line of 64 hex digits, and holds {len(line)} bytes"
        return f"{said}; restore it, or move it away to start with a new key, which is a new address"
    return SigningKey(bytes.fromhex(found[1].decode()))


def _link_in(path: Path) -> GroupLink | str | None:
    """Return the group, None if there is none, or the fault as a sentence. Raises nothing, so that no traceback holds
    the line."""
    line = _content(path, LINK_CHARACTERS_MAX + 64)
    if line is None or isinstance(line, str):
        return line
    try:
        return parse_link(line.decode("ascii"))
    except ValueError:
        said = f"{path} should hold a whole group link, and holds {len(line)} bytes"
        return f"{said}; move it away and add the group again"


def _content(path: Path, bytes_max: int) -> bytes | str | None:
    try:
        return private_file.read(path, bytes_max)
    except FileNotFoundError:
        return None
    except private_file.Exposed as exposed:
        return f"{path} can be read by others (mode {exposed.mode:03o}); run: chmod 600 {path}"
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}; it must be a file of the user who runs this"
