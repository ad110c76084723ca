"""The DMQ service of this home, running or not: for commands that may be about any node, and by default about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from router.cli.command import invocation
from router.cli.exits import Exit, Failure
from router.cli.services import ask_service, config_problems, names_of, start_command, written_settings
from router.client.errors import ClientError
from services.dmq.core.networks import Terms, consumers_of, network_of
from services.dmq.settings import Settings

MODULE, NAME = "services.dmq", "dmq"
_DEFAULTS = Settings()


def service_name(given: str | None) -> str:
    """Return the name of the home's DMQ node; raise `Failure` if there are several and none is given, or if the home
    names others than the one given."""
    names = names_of(invocation().chosen_home, MODULE)
    if given is not None:
        if names and given not in names:
            said = f'there is no DMQ node "{given}" in the home {invocation().chosen_home.path}'
            raise Failure(Exit.USAGE, f"{said}; its names are: {', '.join(names)}")
        return given
    if len(names) > 1:
        said = f"there are several DMQ nodes in the home {invocation().chosen_home.path}: {', '.join(names)}"
        raise Failure(Exit.USAGE, f"{said}; name one of them with --name")
    return names[0] if names else NAME


def consumer_at(path: Path) -> str:
    """Return the named consumer of this home whose socket is at the path, "" if there is none or none is known."""
    home = invocation().chosen_home
    if config_problems(home):  # `config check` says what is wrong with it
        return ""
    kept = [written_settings(home, name).get("consumers", ()) for name in names_of(home, MODULE)]
    named = [one for entries in kept for one in consumers_of(entries).items()]
    for name, url in named:
        if (home.path / url.removeprefix("unix:").partition("?")[0]).resolve() == path.resolve():
            return name
    return ""


class HomeNode:
    """The service of that name. `status`: its answer, None if it does not run; `away`: why not, if its node does;
    `problems`: the mistakes in `router.toml`.

    If it does not run and there are mistakes, nothing is known of its settings, and to ask for one raises what
    `written_settings` does."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._home = invocation().chosen_home
        self.problems = config_problems(self._home)
        self.away = ""
        self.status = self._asked() if self._home.holds_node else None

    def _asked(self) -> Any:
        try:
            return ask_service(invocation().home, self._name, "status")
        except Failure as failure:
            self.away = str(failure)
        except ClientError:
            self.away = self._home.why_no_socket()  # else no node runs there
        return None

    @property
    def start(self) -> str:
        """Return the command that starts the home's node, "" if the home has none."""
        return start_command(self._home)

    def network(self) -> Terms:
        """Return its network: as it runs, else as it is configured; without one, mainnet."""
        if self.status is not None:
            return network_of(str(self.status["magic"]))
        return network_of(str(self._written("network", _DEFAULTS.network)))

    def genesis(self) -> Path | None:
        """Return its Shelley genesis, as it runs, else as it is configured; None without one, or if it is not there."""
        path = Path(self._named("genesis", "genesis", _DEFAULTS.genesis))
        return path if path.name and path.exists() else None

    def socket(self) -> Path:
        """Return its socket, as it runs, else as it is configured; raise `Failure`."""
        if not self._home.holds_node:
            said = f"there is no node in the home {self._home.path}, so its socket is not known"
            raise Failure(Exit.USAGE, f"{said}; name the node's socket with --socket, or its home with --home")
        url = self._named("socket", "local_socket", _DEFAULTS.local_socket)
        if not url.startswith("unix:"):
            said = f"local_socket of the service {self._name} is {url!r}, which is no socket"
            raise Failure(Exit.USAGE, f"{said}; name the node's socket with --socket")
        return self._home.path / url.removeprefix("unix:").partition("?")[0]

    def _named(self, word: str, key: str, default: str) -> str:
        """Return what the running node's status says of a setting, else the configuration."""
        if self.status is not None and word in self.status:
            return str(self.status[word])
        return str(self._written(key, default))

    def _written(self, key: str, default: str) -> object:
        return written_settings(self._home, self._name).get(key, default)
