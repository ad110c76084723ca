"""How the node of a home was started last, so that who finds it stopped is told the command that starts it again."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from router.disk import private_file

FILE_NAME = "last_start"
COMMAND_CHARS_MAX = 800
"""A longer command line is not kept: nobody would read it in a sentence."""
USUAL = "`router serve`"
_UNIT = re.compile(r"/([A-Za-z0-9:_.\\@-]{1,250}\.service)\Z")


class Start(NamedTuple):
    """The arguments of the command line that starts a node. `is_anywhere`: whether it is the same in any directory."""

    arguments: Sequence[str]
    is_anywhere: bool = False


def keep(home: Path, start: Start) -> None:
    """Keep how the node was started. A disk without room keeps nothing."""
    directory = "" if start.is_anywhere else _directory()
    found = {"arguments": _without_home(start.arguments), "directory": directory, "unit": _unit(os.environ)}
    with suppress(OSError):
        private_file.replace(home / FILE_NAME, json.dumps(found).encode())


def is_kept(home: Path) -> bool:
    """Whether the node of this home was ready at least once."""
    return (home / FILE_NAME).exists()


def remedy(home: Path) -> str:
    """Return the command that starts the home's node as it was started last, with its directory if that matters."""
    try:
        found = json.loads((home / FILE_NAME).read_bytes())
        arguments, directory, unit = found["arguments"], found["directory"], found["unit"]
        command = shlex.join(["router", *arguments])
    except (OSError, ValueError, KeyError, TypeError):
        return USUAL
    if unit:
        return f"`systemctl start {unit}`"
    if len(command) > COMMAND_CHARS_MAX or arguments == ["serve"] or "`" in command:
        return USUAL
    return f"`{command}`" + (f" in {directory}" if directory and directory != _directory() else "")


def _directory() -> str:
    """Return the working directory, "" if it has been removed."""
    try:
        return str(Path.cwd())
    except OSError:
        return ""


def _without_home(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without `--home`, which is that of whoever asks."""
    found, skips = list[str](), False
    for one in arguments:
        if skips or one == "--home" or one.startswith("--home="):
            skips = one == "--home" and not skips
        else:
            found.append(one)
    return found


def _unit(environment: Mapping[str, str]) -> str:
    """Return the unit as which systemd has started this very process, behind `--user` if that is a user's
    own systemd (MANAGERPID, systemd.exec(5)); "" if it has not."""
    if environment.get("SYSTEMD_EXEC_PID") != str(os.getpid()):
        return ""
    with suppress(OSError):
        found = _UNIT.search(Path("/proc/self/cgroup").read_text().strip())
        return f"{'--user ' if 'MANAGERPID' in environment else ''}{found[1]}" if found else ""
    return ""
