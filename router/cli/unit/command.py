"""`router service`: install the node as a service of systemd, look after it, and remove it."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from router.actors.process import program
from router.cli.command import Command, CommandGroup, invocation, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import facts, note, say, say_json
from router.cli.unit.service_manager import STARTS_WITHIN_S, ServiceManager, let_linger, lingers, make_account
from router.cli.unit.unit_file import STATE, UNIT_NAME, Unit, UnitFault, home_of, is_made
from router.disk import private_file
from router.settings.default_home import VARIABLE
from router.settings.home import Home, HomeBusy

NAME = "router"
LINES = 20
UNIT_CHARS_MAX = 1 << 16


def _checked(ctx: click.Context, option: click.Parameter, name: str | None) -> str | None:
    if name is not None and not UNIT_NAME.fullmatch(name):
        raise click.BadParameter(f'"{name}" is no name of a unit: use a-z, 0-9 and dashes, and begin with a letter.')
    return name


_name = click.option(
    "--name",
    callback=_checked,
    help=f"The name of the unit, for a second node. Default: that of the unit of --home, or {NAME}.",
)
_system = click.option("--system", is_flag=True, help="A service of the machine, as root; without it, the user's own.")


@click.group(cls=CommandGroup)
def service() -> None:
    """Run the node as a service of systemd: installed once, it starts with the machine and after a failure."""


@service.command("install", cls=Command)
@_name
@_system
@click.option(
    "--role",
    type=click.Choice(["edge", "core"]),
    default="edge",
    show_default=True,
    help="The role of a home that is new.",
)
def install(name: str | None, system: bool, role: str) -> None:
    """Install and start the node of this home as a service.

    As the user: a unit of your own, which goes on when you log out and comes back after a reboot. With --system, as
    root: an account of its own, and a home below /var/lib. A unit that you have changed, or that came with a package,
    is kept.
    """
    manager = ServiceManager(of_machine=system)
    manager.check()
    name = _chosen(manager, name)
    home = Home(_machine_home(name)) if system else invocation().chosen_home
    unit = Unit(name, _program(system), str(home.path), NAME if system else "")
    try:
        text = unit.text()
    except UnitFault as error:
        raise Failure(Exit.USAGE, str(error)) from None
    packaged = manager.packaged(unit.file_name)
    path = packaged or manager.folder / unit.file_name
    before = _read(path)
    if before and home_of(before) not in ("", str(home.path)):
        said = f"{path} runs the node of {home_of(before)}"
        raise Failure(Exit.FAILED, f"{said}; give this one another --name, or `router service remove` that one first")
    is_edited = bool(before) and not packaged and not is_made(before)
    if manager.facts(unit.file_name).get("ActiveState") != "active":
        _check_free(home)
    if system:
        make_account(NAME, str(STATE / NAME))
    if not home.holds_node:
        _init(unit, role)
    if is_edited:
        note(f"{path} was changed by hand and is kept as it is; remove it to have it made anew")
    elif not packaged:
        _write(path, text)
    is_other = bool(before) and before != text and not is_edited and not packaged
    manager.do("daemon-reload")
    manager.do("enable", unit.file_name)
    _start(manager, unit.file_name, "restart" if is_other else "start")
    _tell_next(unit, system)


def _tell_next(unit: Unit, system: bool) -> None:
    """Say how the installed service is looked after."""
    status, logs = (_command(word, unit.name, system) for word in ("status", "logs"))
    say(f"{unit.file_name} runs the node of {unit.home}; `{status}` and `{logs}` show it")
    if system:
        note(f"commands of that node run as its account: `sudo -u {unit.user} router --home {unit.home} status`")
    elif not let_linger():
        remedy = "`sudo loginctl enable-linger $USER` does"
        note(f"it ends when you log out, since this machine does not let your services go on: {remedy}")


def _start(manager: ServiceManager, unit: str, how: str) -> None:
    """Start or restart the unit, by that word; raise `Failure` with the last lines that it printed."""
    try:
        manager.do(how, unit, within_s=STARTS_WITHIN_S)
    except Failure as error:
        said = "\n".join(f"| {line}" for line in manager.last_lines(unit, LINES))
        raise Failure(Exit.FAILED, f"{error}\n{said}".rstrip()) from None


@service.command("status", cls=Command)
@_name
@_system
@json_option
def status(name: str | None, system: bool, as_json: bool) -> None:
    """Show the service: whether it runs, since when, and what it printed last. The code is 3 if it does not run."""
    manager = ServiceManager(of_machine=system)
    manager.check()
    path, text = _unit_file(manager, name)
    unit, packaged = path.name, manager.packaged(path.name)
    is_anothers = not text and path.exists()
    found = {"ActiveState": "inactive", "SubState": "dead"} if is_anothers else manager.facts(unit)
    shown: dict[str, Any] = {
        "unit": unit,
        "installed": bool(text),
        "state": found.get("ActiveState", "unknown"),
        "detail": found.get("SubState", "unknown"),
        "since": found.get("ActiveEnterTimestamp") or None,
        "pid": int(found.get("MainPID") or 0) or None,
        "restarts": int(found.get("NRestarts") or 0),
        "result": found.get("Result") or None,
        "at_boot": found.get("UnitFileState") == "enabled",
        "changed_by_hand": bool(text) and not packaged and not is_made(text),
        "home": home_of(text) or None,
        "without_login": True if system else lingers(),
    }
    if as_json:
        say_json(shown)
    elif not text:
        say(_not_there(manager, path))
    else:
        rows = [(key.replace("_", " "), value) for key, value in shown.items() if value is not None]
        facts([*rows, *(("", f"| {line}") for line in manager.last_lines(unit, 5))])
    if shown["state"] != "active":
        raise SystemExit(Exit.NO_NODE)


@service.command("logs", cls=Command)
@_name
@_system
@click.option("--follow", is_flag=True, help="Go on with what comes.")
@click.option("--lines", type=click.IntRange(1, 1_000_000), default=100, show_default=True, help="How many at most.")
def logs(name: str | None, system: bool, follow: bool, lines: int) -> None:
    """Print what the service has printed, from the journal."""
    manager, path, _ = _installed(name, system)
    command = manager.log_command(path.name, "--lines", str(lines), *(["--follow"] if follow else []))
    try:
        os.execvp(command[0], command)
    except OSError as error:
        raise Failure(Exit.FAILED, f"the journal cannot be read: {command[0]}: {error.strerror}") from None


@service.command("stop", cls=Command)
@_name
@_system
def stop(name: str | None, system: bool) -> None:
    """Stop the node until `router service start`, or until the machine starts again.

    What it has in custody is on its disk. Stop it before its home goes to another machine.
    """
    manager, path, text = _installed(name, system)
    manager.do("stop", path.name, within_s=STARTS_WITHIN_S)
    again = _command("start", path.stem, system)
    say(f"{path.name} is stopped; `{again}` starts the node of {home_of(text) or 'its home'} again")


@service.command("start", cls=Command)
@_name
@_system
def start(name: str | None, system: bool) -> None:
    """Start the node that was stopped; return when it is ready."""
    manager, path, text = _installed(name, system)
    _start(manager, path.name, "start")
    say(f"{path.name} runs the node of {home_of(text) or 'its home'}")


@service.command("restart", cls=Command)
@_name
@_system
def restart(name: str | None, system: bool) -> None:
    """Stop the node and start it, as an upgrade of the program or a changed `router.toml` needs it."""
    manager, path, text = _installed(name, system)
    _start(manager, path.name, "restart")
    say(f"{path.name} runs the node of {home_of(text) or 'its home'}")


@service.command("remove", cls=Command)
@_name
@_system
def remove(name: str | None, system: bool) -> None:
    """Stop the service and remove its unit; the home stays as it is."""
    manager, path, text = _installed(name, system)
    packaged = manager.packaged(path.name)
    manager.do("disable", "--now", path.name, within_s=STARTS_WITHIN_S)
    if packaged:
        note(f"{path} stays: the package that installed it removes it")
    elif not is_made(text):
        kept = path.with_suffix(".service.changed")
        path.rename(kept)
        note(f"the unit was changed by hand: it is kept as {kept}")
    else:
        path.unlink()
    manager.do("daemon-reload")
    done = "stopped, and does not start with the machine" if packaged else "stopped and removed"
    say(f"{path.name} is {done}; the home {home_of(text) or 'of its node'} is still there")


def _command(word: str, name: str, system: bool) -> str:
    """Return the command of this group with that word for the unit of that name."""
    named = ["--name", name] if name != NAME else []
    return " ".join(("router service", word, *named, *(["--system"] if system else [])))


def _installed(name: str | None, system: bool) -> tuple[ServiceManager, Path, str]:
    """Return the service manager, and the path and text of the chosen unit. Raise `Failure` if there is none."""
    manager = ServiceManager(of_machine=system)
    manager.check()
    path, text = _unit_file(manager, name)
    if not text:
        raise Failure(Exit.FAILED, _not_there(manager, path))
    return manager, path, text


def _unit_file(manager: ServiceManager, name: str | None) -> tuple[Path, str]:
    """Return path and text of the chosen unit, "" if there is none. Raise `Failure` if it is of another home than the
    one that was named."""
    unit = f"{_chosen(manager, name)}.service"
    path, home = manager.packaged(unit) or manager.folder / unit, _named_home(manager.of_machine)
    text = _read(path)
    if home is None or not (found := home_of(text)) or _is_same(found, home):
        return path, text
    if name is not None:
        raise Failure(Exit.USAGE, f"{path} runs the node of {found}, not of {home}; leave out --name or --home")
    return path, ""


def _not_there(manager: ServiceManager, path: Path) -> str:
    """Say that there is no unit of this name, or of the home that was named, and what to do."""
    system, home = manager.of_machine, _named_home(manager.of_machine)
    install = _command("install", path.stem, system)
    if home is None:
        return f"{path} is not there, so no service is installed: `{install}` does it"
    others = ", ".join(f"{path.stem} runs that of {of}" for path, of in _nodes(manager))
    said = f"no service runs the node of {home}{f' ({others})' if others else ''}"
    return f"{said}: `{install}` does it"


def _chosen(manager: ServiceManager, name: str | None) -> str:
    """Return the name of the unit that is meant: the one that was given, else that of the unit of the home that was
    named, else the usual one."""
    home = _named_home(manager.of_machine)
    if name is not None or home is None:
        return name or NAME
    return next((path.stem for path, of in _nodes(manager) if _is_same(of, home)), NAME)


def _nodes(manager: ServiceManager) -> Iterator[tuple[Path, str]]:
    """Yield the units that run a node, each with its home as the file names it."""
    for path in manager.unit_files():
        if UNIT_NAME.fullmatch(path.stem):
            with suppress(Failure):  # another's, which nobody may read
                if home := home_of(_read(path)):
                    yield path, home


def _named_home(system: bool) -> Path | None:
    """Return the home that --home names, or for a service of the user ROUTER_HOME; None if nothing does."""
    named = invocation().home_option or (None if system else os.environ.get(VARIABLE))
    return Home.chosen(named).path if named else None


def _is_same(one: str, home: Path) -> bool:
    """Whether both paths lead to one directory; symbolic links are followed as far as this user may."""
    return os.path.realpath(one) == os.path.realpath(home)


def _machine_home(name: str) -> str:
    """Return the home that --home names; without it, the one of that name below /var/lib."""
    return invocation().home_option or str(STATE / name)


def _program(system: bool) -> tuple[str, ...]:
    """Return the command of this installation, by its whole path."""
    python = Path(program("router")[0])
    script = python.with_name("router")
    homes = ("/home", "/run/user", pwd.getpwuid(0).pw_dir)
    if system and any(python.absolute().is_relative_to(one) for one in homes):
        said = f"{python} lies in somebody's home, which a service of the machine may not read; install the program"
        raise Failure(Exit.FAILED, f"{said} elsewhere, as docs/operators.md says, or leave out --system")
    return (str(script),) if script.exists() else tuple(program("router"))


def _init(unit: Unit, role: str) -> None:
    """Make the home as the account of the unit does it. Raise `Failure`."""
    command = [*unit.program, "--home", unit.home, "init", "--role", role]
    account: dict[str, Any] = {}
    try:
        if unit.user:
            Path(unit.home).mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.chown(unit.home, unit.user, unit.user)
            account = {"user": unit.user, "group": unit.user, "extra_groups": []}
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", cwd="/", check=False, **account
        )
        said = done.stderr.strip() or str(done.returncode) if done.returncode else ""
    except (OSError, LookupError) as error:
        said = str(error)
    if said:
        raise Failure(Exit.FAILED, f"no home could be made at {unit.home}: {said}")
    note(f"made the home {unit.home} of a new {role}")


def _check_free(home: Home) -> None:
    """Raise `Failure` if a node runs on this home already."""
    if not home.holds_node:
        return
    home.check_format()
    try:
        with home.lock():
            pass
    except HomeBusy as error:
        raise Failure(Exit.FAILED, f"{error}; stop it, then install the service") from None


def _read(path: Path) -> str:
    try:
        with path.open(errors="replace") as file:
            return file.read(UNIT_CHARS_MAX)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise Failure(Exit.FAILED, f"{path} cannot be read: {error.strerror}") from None


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        private_file.replace(path, text.encode())
        path.chmod(0o644)
    except OSError as error:
        raise Failure(Exit.FAILED, f"{path} cannot be written: {error.strerror}") from None
