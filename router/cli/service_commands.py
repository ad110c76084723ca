"""Find the commands that services declare, without loading any of their code.

The `commands.py` of a service's folder begins with a table, which is read as text:

    COMMANDS = {"guestbook": "Read the guestbook, and strike what does not belong there."}

Each name stands for a click command of that name in the same file. The folders are those of every `services` package on
Python's path, and those named in the home's `router.toml`. Likewise a folder's `scenarios.py` begins with a table
SCENARIOS of commands for `router simulate`.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from router.settings.default_home import default_home


class CommandTable(NamedTuple):
    """A file in a service's folder that begins with a table of commands, and the table's name."""

    file: str
    table: str


COMMANDS = CommandTable("commands.py", "COMMANDS")
SCENARIOS = CommandTable("scenarios.py", "SCENARIOS")
_NAMES_SERVICES = re.compile(r"^\s*(services|module)\s*=", re.MULTILINE)
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def find(arguments: Sequence[str], part: CommandTable = COMMANDS) -> dict[str, tuple[str, str]]:
    """Return place (`module:object`) and help line of each command. Skip a folder whose table cannot be read.

    `arguments`: the command line, which may name the home.
    """
    found: dict[str, tuple[str, str]] = {}
    for module, folder in (*_on_the_path(), *_configured(arguments)):
        for name, about in _table(folder, part).items():
            place = f"{module}.{Path(part.file).stem}:{name.replace('-', '_')}"
            found.setdefault(name, (place, about))
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
            yield f"services.{name}", Path(place) / "services" / name


def _configured(arguments: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Yield the folders of services named in the home's configuration, which may contain mistakes."""
    text = _configuration(arguments)
    if not _NAMES_SERVICES.search(text):
        return
    for module in _modules(text):
        if (folder := _folder(module)) is not None:
            yield module, folder


def of_module(module: str) -> dict[str, str]:
    """Return the commands that the module's folder declares, with their help lines."""
    folder = _folder(module)
    return {} if folder is None else _table(folder, COMMANDS)


def is_of_service(filename: str) -> bool:
    """Whether a file holds commands of a service; the router itself has no file of that name."""
    return Path(filename).name in (COMMANDS.file, SCENARIOS.file)


def fault(module: str) -> str:
    """Return why commands of the module's folder would be missing or fail; "" if there is no fault."""
    folder = _folder(module)
    if folder is None:
        return ""
    return next(filter(None, (_fault(folder, part) for part in (COMMANDS, SCENARIOS))), "")


def _fault(folder: Path, part: CommandTable) -> str:
    file = folder / part.file
    if not file.is_file():
        return ""
    try:
        tree = ast.parse(file.read_text(), str(file))
    except (OSError, ValueError, SyntaxError) as error:
        return f"has a {part.file} that cannot be read: {type(error).__name__}: {error}"
    table = _table(folder, part)
    if not table or table.keys() != _named(tree, part.table):
        wanted = f'{part.table} = {{"name": "What it does."}}, all of it text in quotes, names in small letters'
        return f"has a table {part.table} in {file} that cannot be read without running it; write {wanted}"
    defined = set(_defined(tree))
    missing = next((name for name in table if name.replace("-", "_") not in defined), None)
    if missing is not None:
        return f'declares the command "{missing}" and has no function {missing.replace("-", "_")} in {file}; write it'
    return ""


def _named(tree: ast.Module, table: str) -> set[object]:
    """Return the keys of the literal table; an empty set if it is none."""
    for one in tree.body:
        if not isinstance(one, ast.Assign | ast.AnnAssign):
            continue
        targets = one.targets if isinstance(one, ast.Assign) else [one.target]
        if table in [target.id for target in targets if isinstance(target, ast.Name)]:
            keys = one.value.keys if isinstance(one.value, ast.Dict) else []
            return {key.value if isinstance(key, ast.Constant) else None for key in keys}
    return set()


def _defined(tree: ast.Module) -> Iterator[str]:
    """Yield the names of the functions and values that the file defines or imports."""
    for one in tree.body:
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield one.name
        elif isinstance(one, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in one.names)
        else:
            names = (name for name in ast.walk(one) if isinstance(name, ast.Name))
            yield from (name.id for name in names if isinstance(name.ctx, ast.Store))


def missing_modules(arguments: Sequence[str]) -> list[str]:
    """Return the modules that the home's configuration names and that are in no folder of Python's path."""
    return [module for module in _modules(_configuration(arguments)) if not _is_on_the_path(module)]


def _is_on_the_path(module: str) -> bool:
    places = [Path(place).joinpath(*module.split(".")) for place in sys.path]
    return any(one.is_dir() or one.with_suffix(".py").is_file() for one in places)


def _folder(module: str) -> Path | None:
    """Return the folder of that module, if it holds commands or scenarios."""
    folders = (Path(place).joinpath(*module.split(".")) for place in sys.path)
    parts = (COMMANDS.file, SCENARIOS.file)
    return next((one for one in folders if any((one / part).is_file() for part in parts)), None)


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


def _configuration(arguments: Sequence[str]) -> str:
    try:
        return (_home(arguments).expanduser() / "router.toml").read_text("utf-8-sig", errors="ignore")
    except (OSError, RuntimeError):  # nobody knows where `~` is
        return ""


def _home(arguments: Sequence[str]) -> Path:
    for at, one in enumerate(arguments):
        if one == "--home" and at + 1 < len(arguments):
            return Path(arguments[at + 1])
        if one.startswith("--home="):
            return Path(one.removeprefix("--home="))
    return default_home()


def _table(folder: Path, part: CommandTable) -> dict[str, str]:
    try:
        text = (folder / part.file).read_text()
        found = re.search(rf"^{part.table}(?:: [^=\n]+)? = (\{{.*?\}})$", text, re.MULTILINE | re.DOTALL)
        table = ast.literal_eval(found[1]) if found else {}
    except (OSError, ValueError, SyntaxError):
        return {}
    if not isinstance(table, dict):
        return {}
    return {str(name): str(about) for name, about in table.items() if re.fullmatch(r"[a-z][a-z0-9-]*", str(name))}
