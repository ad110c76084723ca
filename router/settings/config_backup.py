"""The section `[backup]` of `router.toml`: snapshots that a running node makes of its home by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

from msgspec import Struct

from router.settings.config_peers import about
from router.settings.config_text import Problem, toml_value
from router.settings.config_units import DAY_S, span
from router.settings.toml_lines import lines, statements

SECTION = "backup"
EVERY_S_MIN, EVERY_S_MAX, KEEP_MAX = 60, 366 * DAY_S, 10_000


# fmt: off
class Backup(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Snapshots that the running node makes by itself; `router backup --every 1d --keep 7 DIR` writes this section."""

    directory: Annotated[str, about(
        "The directory for the snapshots, with its whole path; it must exist. Empty: none are made.")] = ""
    every_s: Annotated[int, span(EVERY_S_MIN, EVERY_S_MAX, "The time from one snapshot to the next.")] = DAY_S
    keep: Annotated[int, span(1, KEEP_MAX,
        "How many snapshots stay. Older ones of this node are removed when a new one is whole and has been read.")] = 7
    passphrase_file: Annotated[str, about(
        "A file with the passphrase that seals them, with its whole path and mode 0600.")] = ""
    plain: Annotated[bool, about(
        "Whether they are not sealed, although they hold secret keys; then there is no passphrase_file.")] = False
# fmt: on


def broken_rules(backup: Backup) -> Iterator[Problem]:
    """Yield what keeps the node from making these snapshots."""
    for name, path in (("directory", backup.directory), ("passphrase_file", backup.passphrase_file)):
        if path and not Path(path).is_absolute():
            yield Problem((SECTION, name), f"{SECTION}.{name} is {path!r}; it must be a whole path, from / on")
        elif "\0" in path:
            yield Problem((SECTION, name), f"{SECTION}.{name} has a zero byte, which no path can have; remove it")
    if backup.directory and backup.plain == bool(backup.passphrase_file):
        said = f"{SECTION}.directory is set; set either {SECTION}.passphrase_file, which seals the snapshots"
        yield Problem((SECTION, "directory"), f"{said}, or {SECTION}.plain = true, which leaves them open")


def with_section(text: str, values: Mapping[str, object]) -> str:
    """Return the text of `router.toml` with these values as its section `[backup]`, and no others; its comments and all
    else stay. The text must be valid."""
    rows, written = lines(text), [f"{name} = {toml_value(value)}\n" for name, value in values.items()]
    found, removed, header = False, set[int](), None
    for one in statements(text):
        if one.header:
            found = one.value == {SECTION: {}}
            header = one if found else header
        elif found:
            removed |= set(range(one.first, one.stop))
    if header is None:
        last = "" if not text or text.endswith("\n") else "\n"
        return text + "".join((last, "\n", f"[{SECTION}]\n", *written)) if written else text
    kept = [(at, row) for at, row in enumerate(rows) if at not in removed]
    before = [row for at, row in kept if at < header.stop]
    before[-1] = before[-1].rstrip("\n") + "\n"
    return "".join((*before, *written, *(row for at, row in kept if at >= header.stop)))
