"""Checks TOML against msgspec Structs: problems with their lines; names, values and origins of settings.

The Structs are the only definition: types, ranges (`Meta(ge, le)`), sentences (`Meta(description)`) and, for
a pattern, the words that name its form (`Meta(extra={"form": …})`). Nothing here names a setting.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, time
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Struct, inspect

from router.core.wire.errors import RouterError
from router.settings.durations import SECONDS_FORM, is_of_seconds
from router.settings.toml_faults import fault_of
from router.settings.toml_lines import Path as Place
from router.settings.toml_lines import line_of

FILE_BYTES_MAX = 16 << 20
DEPTH_MAX = 32
FLAGS = "command line"
"""The deepest nesting of tables and lists; no setting needs more than a few."""

T = TypeVar("T", bound=Struct)


class ConfigError(RouterError):
    """The configuration cannot be used; `problems` are sentences, each with its line where there is one."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class Problem(NamedTuple):
    """A sentence about the wrong value at `path`."""

    path: Place
    text: str


class Setting(NamedTuple):
    """One row of `config show`. `value` is the program's value: a number, a text, a tuple, a key."""

    name: str
    value: object
    origin: str
    about: str


class Door(Struct, frozen=True):
    """The reader and writer of a type that TOML lacks; `read` raises ValueError with a sentence."""

    noun: str
    read: Callable[[str], object]
    write: Callable[[Any], str]


def dotted(path: Place) -> str:
    """Return the path as text: `limits.hello_s`, `peers[1].urls`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "".join(steps).removeprefix(".")


def with_setting(raw: dict[str, Any], name: str, value: object) -> dict[str, Any]:
    """Set the setting of that name, as `node.listen` or `services.echo.times`, in `raw`, and return it."""
    *sections, key = name.split(".")
    table = raw
    for section in sections:
        table = table.setdefault(section, {})
    table[key] = value
    return raw


def text_of(path: Path) -> str:
    """Return the file's text, "" if there is no file; raise `ConfigError` if it cannot be read."""
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise ConfigError((f"{path} is not a file; move it away, and `router init` writes a new one",))
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():
            said = f"{path} is a symbolic link to {path.readlink()}, which is not there"
            raise ConfigError((f"{said}; make that file, or remove the link to go on with the defaults",)) from None
        return ""
    except OSError as error:
        said = f"{path} cannot be read: {error.strerror}; it must be a file that the user who runs this may read"
        raise ConfigError((said,)) from None
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError((f"{path} has more than {FILE_BYTES_MAX} bytes, the most that is read",))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError((f"{path.name} line {line}: not UTF-8 text; save the file as UTF-8",)) from None


def parse(text: str, file: str) -> dict[str, Any]:
    """Return the TOML value; raise `ConfigError` with file and line if the text is not TOML, or nested deeper than
    `DEPTH_MAX`."""
    try:
        value = tomllib.loads(text)
        if not _is_within(value, DEPTH_MAX):
            raise RecursionError
    except RecursionError:
        said = f"values are nested more than {DEPTH_MAX} deep"
        raise ConfigError((f"{file}: {said}; remove the brackets or dots that are too many",)) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError((fault_of(error, text, file),)) from None
    return value


def _is_within(value: dict[str, Any], depth: int) -> bool:
    level: list[object] = [value]
    while level and depth:
        tables = (one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list))
        level, depth = [one for table in tables for one in table], depth - 1
    return not any(isinstance(one, dict | list) for one in level)


def located(problems: list[Problem], text: str, file: str, flags: Iterable[str] = ()) -> tuple[str, ...]:
    """Return sentences: first those about settings that `flags` of the command line give, then in the order of their
    lines; problems without a place in the file come last, without a line."""
    typed = [one for one in problems if any(f"{dotted(one.path)}.".startswith(f"{name}.") for name in flags)]
    placed = [(line_of(text, problem.path), problem.text) for problem in problems if problem not in typed]
    placed.sort(key=lambda one: (one[0] is None, one[0] or 0))
    written = (f"{file}{'' if line is None else f' line {line}'}: {said}" for line, said in placed)
    return (*(f"{FLAGS}: {one.text}" for one in typed), *written)


def toml_value(value: object) -> str:
    """Return a value as TOML writes it; integers from 10_000 with underscores."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:_}" if value >= 10_000 else str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Struct):
        return (
            "{ " + ", ".join(f"{key} = {toml_value(one)}" for key, one in msgspec.structs.asdict(value).items()) + " }"
        )
    assert isinstance(value, tuple), f"{type(value).__name__} never stands in a configuration"
    return "[" + ", ".join(map(toml_value, value)) + "]"


def names_in(raw: Any, path: Place = ()) -> Iterator[str]:
    """Yield the names of all settings that `raw` sets."""
    if isinstance(raw, dict):
        for key, value in raw.items():
            yield from names_in(value, (*path, key))
    elif isinstance(raw, list) and raw and isinstance(raw[0], dict):
        for at, value in enumerate(raw):
            yield from names_in(value, (*path, at))
    else:
        yield dotted(path)


class Schema(Generic[T]):
    """The allowed content of a file, made from the Struct `root`; `doors` read and write types that TOML lacks."""

    def __init__(self, root: type[T], doors: Mapping[type, Door]) -> None:
        described = inspect.type_info(root)
        assert isinstance(described, inspect.StructType)
        self._root = root
        self._type = described
        self._doors = doors
        self._elsewhere = dict(_leaves(described))

    def __repr__(self) -> str:
        return f"<schema of {self._root.__name__}: {len(self._elsewhere)} settings>"

    def problems(self, raw: Mapping[str, Any], at: Place = ()) -> list[Problem]:
        """Return every problem in `raw`, the table at path `at`: unknown keys, types, ranges."""
        return list(self._walk(raw, self._type, at, None))

    def out_of_order(self, config: T) -> Iterator[Problem]:
        """Yield a problem for every `…_min` that is above the `…_max` of the same name."""
        values = {one.name: one.value for one in self.settings(config, {})}
        for name, least in values.items():
            limit = name.removesuffix("_min") + "_max"
            most = values.get(limit) if name.endswith("_min") else None
            if isinstance(most, int | float) and isinstance(least, int | float) and least > most:
                text = f"{name} is {toml_value(least)}; it must not be above {limit} ({toml_value(most)})"
                yield Problem(tuple(name.split(".")), text)

    def value(self, raw: Mapping[str, Any]) -> T:
        """Return `raw`, in which `problems` found nothing, as a Struct."""
        return msgspec.convert(raw, self._root, dec_hook=lambda kind, text: self._doors[kind].read(text))

    def settings(self, config: T, origins: Mapping[str, str]) -> Iterator[Setting]:
        """Yield every setting with its value, its origin and its sentence."""
        yield from _settings(config, self._type, (), origins)

    def _walk(self, value: object, kind: inspect.Type, path: Place, form: str | None) -> Iterator[Problem]:
        match kind:
            case inspect.Metadata(type=inner, extra=extra):
                yield from self._walk(value, inner, path, (extra or {}).get("form", form))
            case inspect.StructType(fields=fields) if isinstance(value, dict):
                yield from self._table(value, {one.encode_name: one for one in fields}, path)
            case inspect.VarTupleType(item_type=item) if isinstance(value, list | tuple):
                for at, one in enumerate(value):
                    yield from self._walk(one, item, (*path, at), form)
            case inspect.DictType(value_type=item) if isinstance(value, dict):
                for key, one in value.items():
                    yield from self._walk(one, item, (*path, key), form)
            case inspect.UnionType(types=kinds):
                yield from self._walk(value, _fitting(value, kinds), path, form)
            case inspect.CustomType(cls=cls) if isinstance(value, str):
                yield from _readable(value, self._doors[cls], path)
            case _:
                wanted = self._wanted(value, kind, form)
                if wanted is not None and isinstance(value, str) and is_of_seconds(path[-1]):
                    wanted = f"it must be {SECONDS_FORM}"
                if wanted is not None:
                    yield Problem(path, f"{dotted(path)} is {_shown(value)}; {wanted}")

    def _table(self, table: Mapping[str, Any], fields: Mapping[str, inspect.Field], path: Place) -> Iterator[Problem]:
        for key, value in table.items():
            if key in fields:
                yield from self._walk(value, fields[key].type, (*path, key), None)
            else:
                yield Problem((*path, key), self._unknown(key, tuple(fields), path))
        for key, one in fields.items():
            if one.required and key not in table:
                yield Problem(path, f"{dotted(path)} has no `{key}`; add a line for it")

    def _unknown(self, key: str, known: tuple[str, ...], path: Place) -> str:
        name = dotted((*path, key))
        near = get_close_matches(key, known, n=1, cutoff=0.7)
        if not near and key in self._elsewhere:
            near = [self._elsewhere[key]]
        if not near:
            near = get_close_matches(key, known, n=1, cutoff=0.5)
        if near:
            return f"unknown key `{name}`; did you mean `{near[0]}`?"
        return f"unknown key `{name}`; known here: {', '.join(known)}"

    def _wanted(self, value: object, kind: inspect.Type, form: str | None) -> str | None:
        """Describe the value that is expected instead; None if the value fits."""
        match kind:
            case inspect.AnyType():
                return None
            case inspect.BoolType():
                return None if isinstance(value, bool) else "it must be true or false"
            case inspect.IntType(ge=least, le=most):
                if isinstance(value, bool) or not isinstance(value, int):
                    return "it must be a whole number"
                return _in_range(value, least, most)
            case inspect.FloatType(ge=least, le=most):
                if isinstance(value, bool) or not isinstance(value, int | float):
                    return "it must be a number"
                return _in_range(value, least, most)
            case inspect.LiteralType(values=words):
                return None if value in words else _one_of(value, words)
            case inspect.StrType(pattern=pattern):
                if not isinstance(value, str):
                    return "it must be text in quotes"
                fits = pattern is None or re.search(pattern, value)
                return None if fits else f"it must be {form or 'of the form ' + str(pattern)}"
            case inspect.CustomType(cls=cls):
                return f"it must be {self._doors[cls].noun}, as text in quotes"
            case inspect.VarTupleType():
                return "it must be a list in [ ]"
            case _:
                return "it must be a section of its own, in [ ]"


def _fitting(value: object, kinds: tuple[inspect.Type, ...]) -> inspect.Type:
    """Return the kind of a union that fits the value: the section for a table, the plain kind otherwise."""
    return next((one for one in kinds if isinstance(one, inspect.StructType) is isinstance(value, dict)), kinds[0])


def _readable(value: str, door: Door, path: Place) -> Iterator[Problem]:
    try:
        door.read(value)
    except ValueError as error:
        yield Problem(path, f"{dotted(path)}: {error}")


def _in_range(value: float, least: float | None, most: float | None) -> str | None:
    if least is not None and not value >= least:
        return f"it must be at least {toml_value(least)}"
    if most is not None and not value <= most:
        return f"it must be at most {toml_value(most)}"
    return None


def _one_of(value: object, words: tuple[str | int | bool | None, ...]) -> str:
    known = [str(one) for one in words if one]
    near = get_close_matches(str(value), known, n=1)
    wanted = "it must be " + " or ".join(f'"{one}"' for one in known)
    return f'{wanted}; did you mean "{near[0]}"?' if near else wanted


def _shown(value: object) -> str:
    """Return the value in the file, shortened, with the name of its type where the value alone does not show it."""
    if isinstance(value, dict):
        return "a section"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, datetime | date | time):
        return f"the date or time {value}"
    if isinstance(value, str):
        return toml_value(value if len(value) <= 60 else value[:60] + "…")
    return toml_value(value)


def about(one: inspect.Field) -> str:
    """Return the description of a setting."""
    schema = one.type.extra_json_schema if isinstance(one.type, inspect.Metadata) else None
    return str((schema or {}).get("description", ""))


def bare(kind: inspect.Type) -> inspect.Type:
    """Return the type without its metadata."""
    return kind.type if isinstance(kind, inspect.Metadata) else kind


def _leaves(kind: inspect.StructType) -> Iterator[tuple[str, str]]:
    """Yield every setting of every section: its short and its dotted name."""
    for section in kind.fields:
        inner = bare(section.type)
        if isinstance(inner, inspect.StructType):
            yield from ((one.name, f"{section.name}.{one.name}") for one in inner.fields)


def _settings(value: object, kind: inspect.StructType, path: Place, origins: Mapping[str, str]) -> Iterator[Setting]:
    for one in kind.fields:
        inner, held, here = bare(one.type), getattr(value, one.name), (*path, one.name)
        if isinstance(inner, inspect.StructType):
            yield from _settings(held, inner, here, origins)
        elif isinstance(inner, inspect.VarTupleType) and isinstance(inner.item_type, inspect.StructType):
            for at, block in enumerate(held):
                yield from _settings(block, inner.item_type, (*here, at), origins)
        elif isinstance(inner, inspect.DictType):
            for key, options in held.items():
                for option, content in options.items():
                    name = dotted((*here, key, option))
                    yield Setting(name, content, origins.get(name, "router.toml"), about(one))
        else:
            name = dotted(here)
            yield Setting(name, held, origins.get(name, "default"), about(one))
