"""What the commands of services ask: the service of that name, through the running node."""

from __future__ import annotations

from typing import Any

from router.cli.ask import ask
from router.settings.home import Home


def ask_service(home: Home, name: str, word: str, argument: str = "") -> Any:
    """The service's answer, decoded JSON. `Failure` if it is an error; errors of the client otherwise."""
    return ask(home, "service", f"{name} {word} {argument}".rstrip())
