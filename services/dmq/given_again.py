"""The command line of `router dmq serve`, written so that it starts the same node from any directory."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

_PATHS = frozenset({"local_socket", "genesis", "configuration_file", "topology_file", "cardano_node_socket"})


def given_again(options: Iterable[click.Parameter], values: Mapping[str, Any]) -> list[str]:
    """Return the arguments that give the options these values, with absolute paths; `values`: as click has read
    them."""
    found: list[str] = []
    for option in options:
        name, value = str(option.name), values.get(str(option.name))
        flag = max(option.opts, key=len)
        if value is True:
            found.append(flag)
        elif value:
            for one in value if isinstance(value, tuple) else (value,):
                found += [flag, _absolute(name, one)]
    return found


def absolute_command(text: str) -> list[str]:
    """Return the words of a command; a path of its program is made absolute."""
    words = shlex.split(text)
    if words and "/" in words[0]:
        words[0] = str(Path(words[0]).absolute())
    return words


def is_anywhere(settings: Mapping[str, Any]) -> bool:
    """Whether a node with these settings is the same in any working directory: no path in them begins there."""
    paths = [settings.get("stake_file") or "/", settings.get("genesis") or "/"]
    words = settings.get("stake_command") or ()
    return all(map(_is_absolute, paths)) and not any(not _is_absolute(one) and Path(one).exists() for one in words)


def _is_absolute(path: str) -> bool:
    return Path(path).is_absolute()


def _absolute(option: str, text: str) -> str:
    name, equals, path = text.partition("=")
    if option == "consumers":
        return f"{name}{equals}{_path(path)}"
    if option == "stake":
        return _path(text) if Path(text).is_file() else shlex.join(absolute_command(text))
    return _path(text) if option in _PATHS else text


def _path(text: str) -> str:
    return text if text.startswith("unix:") else str(Path(text).absolute())
