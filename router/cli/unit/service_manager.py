"""systemd, asked by its own commands, for the machine or for the user who runs this."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from router.cli.exits import Exit, Failure

BOOTED = Path("/run/systemd/system")
"""Is there where systemd runs the machine (sd_booted(3))."""
MACHINE = Path("/etc/systemd/system")
OF_PACKAGES = Path("/usr/lib/systemd/system")
SHOWN = (
    "LoadState",
    "ActiveState",
    "SubState",
    "MainPID",
    "NRestarts",
    "Result",
    "ActiveEnterTimestamp",
    "UnitFileState",
)
ANSWERS_WITHIN_S = 60.0
STARTS_WITHIN_S = 660.0


class ServiceManager:
    """The service manager of the machine, or of the user."""

    def __init__(self, *, of_machine: bool) -> None:
        self.of_machine = of_machine
        self._scope = () if of_machine else ("--user",)

    def __repr__(self) -> str:
        return f"<the service manager of the {'machine' if self.of_machine else 'user'}>"

    @property
    def folder(self) -> Path:
        """Return where unit files lie that were not installed with a package."""
        if self.of_machine:
            return MACHINE
        config = os.environ.get("XDG_CONFIG_HOME", "")
        return (Path(config) if config.startswith("/") else Path.home() / ".config") / "systemd" / "user"

    def packaged(self, unit: str) -> Path | None:
        """Return the unit file that a package has installed, None if there is none, or another in its place."""
        path = OF_PACKAGES / unit
        return path if self.of_machine and path.is_file() and not (self.folder / unit).exists() else None

    def unit_files(self) -> Iterator[Path]:
        """Yield the unit files of services, each name once: those of packages behind the others."""
        seen = set[str]()
        for folder in (self.folder, *([OF_PACKAGES] if self.of_machine else [])):
            for path in sorted(folder.glob("*.service")) if folder.is_dir() else ():
                if path.name not in seen:
                    seen.add(path.name)
                    yield path

    def words(self, *words: str) -> str:
        """Return the command by which a person does this."""
        return " ".join(("systemctl", *self._scope, *words))

    def check(self) -> None:
        """Raise `Failure` where there is no systemd, or it cannot be asked."""
        foreground = "`router serve` runs the node in the foreground"
        if not BOOTED.is_dir() or shutil.which("systemctl") is None:
            raise Failure(Exit.FAILED, f"systemd does not run this machine, so it has no services; {foreground}")
        if self.of_machine and os.geteuid() != 0:
            raise Failure(Exit.FAILED, "a service of the machine is installed by root: use sudo, or leave out --system")
        done = self._run("show-environment")
        if done.returncode:
            said = " ".join(done.stderr.split()) or "no answer"
            remedy = "" if self.of_machine else "; log in as this user, not by su or sudo, or use --system as root"
            raise Failure(Exit.FAILED, f"the service manager cannot be asked ({said}){remedy}; {foreground}")

    def do(self, *words: str, within_s: float = ANSWERS_WITHIN_S) -> None:
        """Run `systemctl` with these words; raise `Failure` with what it said."""
        done = self._run(*words, within_s=within_s)
        if done.returncode:
            said = " ".join((done.stderr or done.stdout).split())
            raise Failure(Exit.FAILED, f"`{self.words(*words)}` failed: {said or done.returncode}")

    def facts(self, unit: str) -> dict[str, str]:
        """Return what the service manager knows of a unit, by the names in `SHOWN`."""
        done = self._run("show", unit, "--property", ",".join(SHOWN))
        pairs = (line.partition("=") for line in done.stdout.splitlines())
        return {name: value for name, _, value in pairs}

    def log_command(self, unit: str, *words: str) -> list[str]:
        """Return the command that prints a unit's lines from the journal."""
        return ["journalctl", *self._scope, "--unit", unit, *words]

    def last_lines(self, unit: str, count: int) -> list[str]:
        """Return the last lines that the unit printed; none where the journal cannot be read."""
        try:
            done = subprocess.run(
                self.log_command(unit, "--lines", str(count), "--output", "cat", "--no-pager", "--quiet"),
                capture_output=True,
                text=True,
                errors="replace",
                timeout=ANSWERS_WITHIN_S,
            )
        except (OSError, subprocess.TimeoutExpired):
            return []
        return done.stdout.splitlines()[-count:]

    def _run(self, *words: str, within_s: float = ANSWERS_WITHIN_S) -> subprocess.CompletedProcess[str]:
        command = ["systemctl", *self._scope, "--no-pager", *words]
        try:
            return subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=within_s, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired:
            said = f"`{' '.join(command)}` has not ended within {within_s:g} s"
            raise Failure(Exit.TIMED_OUT, said) from None


def lingers() -> bool | None:
    """Whether the user's services run without the user being logged in; None if that cannot be told."""
    try:
        done = subprocess.run(
            ["loginctl", "show-user", _user(), "--property", "Linger", "--value"],
            capture_output=True,
            text=True,
            timeout=ANSWERS_WITHIN_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = done.stdout.strip()
    return {"yes": True, "no": False}.get(said)


def let_linger() -> bool:
    """Let the user's services run without the user being logged in, if the machine permits it; return whether they
    do."""
    if lingers() is False:
        try:
            subprocess.run(["loginctl", "enable-linger", _user()], capture_output=True, timeout=ANSWERS_WITHIN_S)
        except (OSError, subprocess.TimeoutExpired):
            return False
    return lingers() is True


def _user() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


def make_account(name: str, home: str) -> None:
    """Make a system account without a login, unless it is there. Raise `Failure`."""
    try:
        pwd.getpwnam(name)
        return
    except KeyError:
        pass
    options = ("--system", "--user-group", "--home-dir", home, "--no-create-home", "--shell", "/usr/sbin/nologin")
    try:
        done = subprocess.run(["useradd", *options, name], capture_output=True, text=True, timeout=ANSWERS_WITHIN_S)
        said = "" if done.returncode == 0 else " ".join(done.stderr.split()) or str(done.returncode)
    except OSError as error:
        said = error.strerror or str(error)
    if said:
        raise Failure(Exit.FAILED, f"useradd could not make the account {name} ({said}); make it by hand")
