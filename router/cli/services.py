"""Services as commands need them: an answer of a running one, and the words of their reasons."""

from __future__ import annotations

from typing import Any

from router.cli.ask import ask
from router.settings.home import Home


def ask_service(home: Home, name: str, word: str, argument: str = "") -> Any:
    """Return the service's answer, decoded from JSON. Raise `Failure` if it is an error, else the client's errors."""
    return ask(home, "service", f"{name} {word} {argument}".rstrip())


def know_reasons(home: Home) -> None:
    """Declare the reasons of the configured services, as far as these can be loaded."""
    from router.service.plugins import UnknownService, load_reasons
    from router.settings.config import load
    from router.settings.config_services import instances
    from router.settings.config_text import ConfigError

    try:
        modules = {one.module for one in instances(load(home.config_path)[0].node.services)}
    except ConfigError:
        return
    for module in modules:
        try:
            load_reasons(module)
        except UnknownService:
            continue  # `config check` says what is wrong with it; its reasons are shown by number
