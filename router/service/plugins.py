"""Find the parts that a service's folder declares: its class, settings, reasons and events, each in a file of its own.

    services/guestbook/__init__.py   `RUN`: where it runs by default; `ROLE`: what the router expects of it
                       rules.py      a class with `hear`: the rules        or service.py: a subclass of `Service`
                       settings.py   `Settings`, a Struct
                       reasons.py    reasons of its own
                       events.py     `EVENTS`: event -> sentence; `SHOWN`: field of an event -> its value for people
                       commands.py   `COMMANDS`: command -> what it does (found by `router.cli`)
                       metrics.py    `families(status)`: its metrics, from its answer to the question `status`
                       http.py       a class with `hear_request`: answers over HTTP (`router/service/http.py`)

A service of one file holds its class and, where it has settings, `Settings` in that file.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import msgspec
from msgspec import Struct

from router.core.log.events import EVENT_FORM
from router.core.service.roles import Role
from router.core.wire.errors import CAUSE_CHARS_MAX, RouterError, cause_of, line_in
from router.core.wire.reasons import OTHERS, RANGES, Reason
from router.core.wire.text import printable
from router.service.class_form import fault_of_rules, fault_of_service
from router.service.contract import Rules
from router.service.host import Service
from router.service.http import ServiceOverHttp
from router.settings.config_services import APART, INSIDE, service_name
from router.settings.config_text import Problem, Schema, Setting
from router.shared_packages import complete

Families = Callable[[Any], Iterable[Any]]
"""Returns the metrics of a service as families of Prometheus's client, from its status."""
Shown = Callable[[Any], str]
"""Returns the value of an event's field as people read it; JSON has it as it is."""


class UnknownService(RouterError):
    """A service that is named cannot be loaded; the text says why and what to do."""


class NotStarted(RouterError):
    """A service without which the node is not to run cannot start; the text says why and what to do."""


class NoSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of a service that has none."""


class Plugin(Struct, frozen=True):
    """The declarations of a service's module. Either `kind` or `rules` is given."""

    spec: str
    kind: type[Service] | None
    rules: type[Rules] | None
    settings: type[Struct]
    events: Mapping[str, str]
    run: str = INSIDE
    """Where it runs unless the configuration says otherwise."""
    role: Role | None = None
    """What its router expects of it, and tells it."""

    @property
    def folder(self) -> str:
        """Return the name of the service's folder or file."""
        return service_name(self.spec)

    def judge(
        self, options: Mapping[str, Any], name: str, own: bytes | None = None, router: bytes | None = None
    ) -> list[Problem]:
        """Return the problems with its settings. `own`, `router`: the addresses of the service and of its node, if they
        have keys; of these `own_problems` of the settings tells, if there is such a method."""
        at = ("services", name)
        if self.settings is NoSettings and options:
            return [Problem((*at, key), f"services.{name}.{key}: {self.spec} has no settings") for key in options]
        try:
            return list(self._problems(options, at, own, router))
        except Exception as error:  # of the Struct or its methods, which are somebody else's
            place = at if options else ("node", "services")
            return [Problem(place, f"services.{name}: {self._failed_text(error)}")]

    def _problems(
        self, options: Mapping[str, Any], at: tuple[str, str], own: bytes | None, router: bytes | None
    ) -> list[Problem]:
        found = Schema(self.settings, {}).problems(options, at)
        if found:
            return found
        settings = self.settings_of(options)
        defaults = {one: getattr(settings, one) for one in self.settings.__struct_fields__ if one not in options}
        found = Schema(self.settings, {}).problems(defaults, at)
        if found:
            file = f"{self.settings.__module__.replace('.', '/')}.py"
            return [Problem(at, f"{one.text}; this is its default in {file}: mend that file") for one in found]
        for method, arguments in (("problems", ()), ("own_problems", (own, router))):
            more = getattr(settings, method, None)
            if callable(more) and not found:
                found = [Problem((*at, key), printable(text)) for key, text in more(*arguments)]
        return found

    def _failed_text(self, error: Exception) -> str:
        """Return the sentence about settings that fail when they are read or asked."""
        file = f"{self.settings.__module__.replace('.', '/')}.py"
        line = line_in(error, file)
        where = f"{file}{f', line {line}' if line else ''}"
        return f"the Settings of {self.spec} failed in {where}: {cause_of(error)}; mend that file"

    def warnings(self, options: Mapping[str, Any], name: str, *, is_public: bool, has_neighbours: bool) -> list[str]:
        """Return warnings about settings that are valid but probably not intended. `is_public`: whether
        `node.services_public` names it; `has_neighbours`: whether the node has some, who may send to it in any case.
        Each sentence ends with a remedy after a semicolon."""
        more = getattr(self.settings, "warnings", None)
        if not callable(more):
            return []
        try:
            found = more(self.settings_of(options), name, is_public=is_public, has_neighbours=has_neighbours)
            return [printable(one) for one in found]
        except Exception as error:
            return [self._failed_text(error)]

    def at_start(self, options: Mapping[str, Any], home: Path) -> dict[str, str]:
        """Return what `router serve` prints of it when it is ready, by name: where it listens, for whom, with what."""
        more = getattr(self.settings, "at_start", None)
        if not callable(more):
            return {}
        try:
            return {
                printable(name): printable(str(value))
                for name, value in dict(more(self.settings_of(options), home)).items()
            }
        except Exception as error:
            return {"settings": self._failed_text(error)}

    def settings_of(self, options: Mapping[str, Any]) -> Struct:
        """Return its settings, with defaults for those not given."""
        return msgspec.convert(options, self.settings)

    def defaults(self, options: Mapping[str, Any], name: str) -> Iterator[Setting]:
        """Return the defaults of its settings that the file does not name, as rows of `config show`."""
        for one in Schema(self.settings, {}).settings(self.settings_of(options), {}):
            if one.name not in options:
                yield one._replace(name=f"services.{name}.{one.name}")


def load(spec: str) -> Plugin:
    """Return the declarations of `services.echo` or `services.echo:Echo`. Raises `UnknownService`."""
    module_name, _, class_name = spec.partition(":")
    module = _load_module(spec, module_name)
    parts = {name: _load_part(spec, module, name) for name in ("settings", "reasons", "events")}
    _check_reasons(spec, parts["reasons"])
    kind, rules = _load_class(spec, module, class_name)
    settings = getattr(parts["settings"] or module, "Settings", NoSettings)
    if not (isinstance(settings, type) and issubclass(settings, Struct)):
        raise UnknownService(f"{module_name} has Settings that are no Struct; write `class Settings(Struct, …)`")
    if (run := getattr(module, "RUN", INSIDE)) not in (INSIDE, APART):
        raise UnknownService(
            f'{module_name} says RUN = {_written(run)}; a service runs "{INSIDE}" or "{APART}" by default'
        )
    return Plugin(spec, kind, rules, settings, _events(spec, parts["events"]), run, _role(module))


def _written(value: object) -> str:
    """Return a value of a service's file as errors show it: as written if it is text, else its class."""
    return repr(value[:60]) if type(value) is str else f"something of type {type(value).__name__}"


def load_over_http(spec: str) -> type[ServiceOverHttp] | None:
    """Return the class that answers over HTTP in that service's name, without loading its rules; None if there is none.
    Raises `UnknownService`."""
    module = _load_module(spec, spec.partition(":")[0])
    part = _load_part(spec, module, "http")
    if part is None:
        return None
    named = [one for one in vars(part).values() if isinstance(one, type) and one.__module__ == part.__name__]
    found = [one for one in named if hasattr(one, "hear_request")]
    if len(found) != 1:
        said = f"{part.__name__} does not hold exactly one class with hear_request"
        raise UnknownService(f"{said} ({', '.join(one.__name__ for one in found) or 'there is none'}); write one")
    return cast(type[ServiceOverHttp], found[0])


def load_settings(spec: str, options: Mapping[str, Any], name: str) -> Struct:
    """Return the settings of that service, called `name`, without loading its rules. Raises `UnknownService`, also if
    they are wrong."""
    module = _load_module(spec, spec.partition(":")[0])
    kind = getattr(_load_part(spec, module, "settings") or module, "Settings", NoSettings)
    plugin = Plugin(spec, None, None, kind, {})
    if faults := plugin.judge(options, name):
        raise UnknownService(faults[0].text)
    return plugin.settings_of(options)


def load_role(spec: str) -> Role | None:
    """Return the role of that service, without loading its rules; None if it has none. Raises `UnknownService`."""
    return _role(_load_module(spec, spec.partition(":")[0]))


def _role(module: ModuleType) -> Role | None:
    said = getattr(module, "ROLE", None)
    if said is not None and said not in list(Role):
        roles = " and ".join(f'"{role}"' for role in Role)
        raise UnknownService(f"{module.__name__} says ROLE = {_written(said)}; there are {roles}")
    return None if said is None else Role(said)


def doubled_roles(roles: Iterable[tuple[str, Role | None]]) -> Iterator[tuple[str, str]]:
    """Yield each service with a role that another one before it has, and a sentence about both. `roles`: the role of
    each service, by its name."""
    first = dict[Role, str]()
    for name, role in roles:
        if role is not None and (other := first.setdefault(role, name)) != name:
            said = f'the services "{other}" and "{name}" both have the role {role}, of which a node has one'
            yield name, f"{said}; take one of them out of node.services"


def load_reasons(spec: str) -> None:
    """Declare the reasons of that service, without loading its rules. Raises `UnknownService`."""
    _load_part(spec, _load_module(spec, spec.partition(":")[0]), "reasons")


def load_shown(spec: str) -> Mapping[str, Shown]:
    """Return how people read the fields of that service's events, without loading its rules. Raises
    `UnknownService`."""
    shown = getattr(_load_part(spec, _load_module(spec, spec.partition(":")[0]), "events"), "SHOWN", {})
    return dict(shown) if isinstance(shown, Mapping) else {}


def load_families(spec: str) -> Families | None:
    """Return what gives that service's metrics, without loading its rules; None if it has none. Raises
    `UnknownService`."""
    found = getattr(_load_part(spec, _load_module(spec, spec.partition(":")[0]), "metrics"), "families", None)
    return cast(Families, found) if callable(found) else None


def beside_faults(spec: str) -> Iterator[str]:
    """Yield what is wrong with the files metrics.py and http.py of that service."""
    try:
        part = _load_part(spec, _load_module(spec, spec.partition(":")[0]), "metrics")
        if part is not None and load_families(spec) is None:
            yield f"{part.__name__} has no function families; write `def families(status)`"
        load_over_http(spec)
    except UnknownService as error:
        yield str(error)


def form_fault(plugin: Plugin) -> str:
    """Return why the class of this service cannot be made or called; "" if it can."""
    if plugin.rules is not None:
        return fault_of_rules(plugin.rules)
    return "" if plugin.kind is None else fault_of_service(plugin.kind)


def _load_module(spec: str, module_name: str) -> ModuleType:
    try:
        if module_name.startswith("services."):
            complete("services")
        return importlib.import_module(module_name)
    except Exception as error:  # it is somebody else's file: whatever goes wrong in it is its own
        said = f"the service {spec} of node.services cannot be loaded: {type(error).__name__}{_place_of(error)}: "
        said += error.msg if isinstance(error, SyntaxError) else _text_of(error)
        raise UnknownService(said + _advice(error, spec, module_name)) from None
    except SystemExit as error:
        said = f"the service {spec} of node.services cannot be loaded: its module ends the program ({error!r})"
        raise UnknownService(f"{said}; code that is no definition belongs under `if __name__ == '__main__':`") from None


def _text_of(error: Exception) -> str:
    """Return the text of somebody else's error as one line."""
    try:
        return printable(str(error))[:CAUSE_CHARS_MAX]
    except Exception:
        return "(its text cannot be made)"


def _place_of(error: Exception) -> str:
    """Return the line of another file that raised the error; "" if none did."""
    if isinstance(error, SyntaxError):
        return f" in {error.filename}, line {error.lineno}" if error.filename else ""
    frames = [one for one in traceback.extract_tb(error.__traceback__)[1:] if "importlib" not in one.filename]
    return f" in {frames[-1].filename}, line {frames[-1].lineno}" if frames else ""


def _advice(error: Exception, spec: str, module_name: str) -> str:
    if not isinstance(error, ImportError):
        return ""
    if "." not in module_name and importlib.util.find_spec(f"services.{module_name}") is not None:
        return f'; write it with its folder: "services.{spec}"'
    return "; install it into this environment, or name its folder in PYTHONPATH"


def _load_part(spec: str, module: ModuleType, part: str) -> ModuleType | None:
    """Load the file of that name in the service's folder; None if there is none."""
    if not hasattr(module, "__path__") or importlib.util.find_spec(f"{module.__name__}.{part}") is None:
        return None
    return _load_module(spec, f"{module.__name__}.{part}")


def _load_class(spec: str, module: ModuleType, class_name: str) -> tuple[type[Service] | None, type[Rules] | None]:
    places = [module] if class_name else _load_places(spec, module)
    found = [one for place in places for one in _classes(place, class_name)]
    if len(found) != 1:
        said = f"{module.__name__} does not hold exactly one service"
        how = f"name it as {module.__name__}:CLASS" if found or class_name else "write a class with on_message or hear"
        raise UnknownService(f"{said} ({', '.join(one.__name__ for one in found) or 'there is none'}); {how}")
    if issubclass(found[0], Service):
        return found[0], None
    return None, cast(type[Rules], found[0])


def _load_places(spec: str, module: ModuleType) -> list[ModuleType]:
    parts = (_load_part(spec, module, part) for part in ("service", "rules"))
    return [module, *(part for part in parts if part is not None)]


def _classes(module: ModuleType, class_name: str) -> list[type]:
    if class_name:
        named = [getattr(module, class_name, None)]
    else:
        named = [one for one in vars(module).values() if getattr(one, "__module__", None) == module.__name__]
    kinds = [one for one in named if isinstance(one, type) and not getattr(one, "_is_protocol", False)]
    return [one for one in kinds if issubclass(one, Service) or hasattr(one, "hear")]


def _check_reasons(spec: str, module: ModuleType | None) -> None:
    """Check that each reason it declares has a number of the service's own range."""
    least, most = RANGES.get(service_name(spec), OTHERS)
    for reason in vars(module).values() if module is not None else ():
        if isinstance(reason, Reason) and not least <= reason <= most:
            said = f'the service {spec} declares the reason "{reason.word}" with the number {int(reason)}'
            raise UnknownService(f"{said}, outside its range; choose one from {least} to {most}")


def _events(spec: str, module: ModuleType | None) -> Mapping[str, str]:
    """Return the events it declares; each begins with the name of the service's folder, so that no two services share
    one."""
    events = getattr(module, "EVENTS", {}) if module is not None else {}
    if not isinstance(events, Mapping):
        raise UnknownService(f"the service {spec} has EVENTS in events.py that are no table; write {{event: sentence}}")
    prefix = f"{service_name(spec)}_"
    for event, sentence in events.items():
        if not (re.fullmatch(EVENT_FORM, str(event)) and str(event).startswith(prefix) and isinstance(sentence, str)):
            said = f'the service {spec} declares the event "{event}" in events.py'
            raise UnknownService(f"{said}; write {prefix}WORD, in small letters, with a sentence of what it tells")
    return dict(events)
