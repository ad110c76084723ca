"""Find the commands that services declare, without loading any of their code.

The `commands.py` of a service's folder begins with a table, which is read as text:

    COMMANDS = {"guestbook": "Read the guestbook, and strike what does not belong there."}

Each name stands for a click command of that name in the same file. The folders are those of every `services` package on
Python's path, and those that the `router.toml` of the home names.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

PART = "commands.py"
_TABLE = re.compile(r"^COMMANDS(?:: [^=\n]+)? = (\{.*?\})$", re.MULTILINE | re.DOTALL)
_NAMES_SERVICES = re.compile(r"^\s*(services|module)\s*=", re.MULTILINE)
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def find(arguments: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return each command's place (`module:object`) and what it does. Skip a folder whose table cannot be read.

    `arguments`: those of the command line, which may name the home.
    """
    found: dict[str, tuple[str, str]] = {}
    for module, file in (*_on_the_path(), *_configured(arguments)):
        for name, about in _table(file).items():
            found.setdefault(name, (f"{module}.commands:{name.replace('-', '_')}", about))
    return found


def _on_the_path() -> Iterator[tuple[str, Path]]:
    for place in sys.path:
        if not (Path(place) / "services" / "__init__.py").is_file():
            continue
        try:
            folders = sorted(one.name for one in os.scandir(Path(place) / "services") if one.is_dir())
        except OSError:
            continue
        for name in folders:
            yield f"services.{name}", Path(place) / "services" / name / PART


def _configured(arguments: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Yield the folders of the services named in the home's configuration, which may contain mistakes."""
    home = _home(arguments)
    text = ""
    if home is not None:
        try:
            text = (home / "router.toml").read_text(errors="ignore")
        except OSError:
            return
    if not _NAMES_SERVICES.search(text):
        return
    for module in _modules(text):
        if (file := _file(module)) is not None:
            yield module, file


def of_module(module: str) -> dict[str, str]:
    """The commands that the folder of that module declares, and what each does."""
    file = _file(module)
    return {} if file is None else _table(file)


def _file(module: str) -> Path | None:
    files = (Path(place).joinpath(*module.split("."), PART) for place in sys.path)
    return next((file for file in files if file.is_file()), None)


def _modules(text: str) -> Iterator[str]:
    import tomllib

    try:
        services = tomllib.loads(text).get("node", {}).get("services", [])
    except (tomllib.TOMLDecodeError, AttributeError):
        return
    for one in services if isinstance(services, list) else ():
        spec = one.get("module", "") if isinstance(one, dict) else one
        module = str(spec).partition(":")[0]
        if _MODULE.fullmatch(module):
            yield module


def _home(arguments: Sequence[str]) -> Path | None:
    for at, one in enumerate(arguments):
        if one == "--home" and at + 1 < len(arguments):
            return Path(arguments[at + 1])
        if one.startswith("--home="):
            return Path(one.removeprefix("--home="))
    chosen = os.environ.get("ROUTER_HOME")
    if chosen:
        return Path(chosen)
    from platformdirs import user_data_path

    return user_data_path("key-addressed-router", appauthor=False)


def _table(file: Path) -> dict[str, str]:
    try:
        found = _TABLE.search(file.read_text())
        table = ast.literal_eval(found[1]) if found else {}
    except (OSError, ValueError, SyntaxError):
        return {}
    if not isinstance(table, dict):
        return {}
    return {str(name): str(about) for name, about in table.items() if re.fullmatch(r"[a-z][a-z0-9-]*", str(name))}
