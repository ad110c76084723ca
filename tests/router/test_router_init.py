"""The package itself: every public name is there, and importing it costs nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

import router


@pytest.mark.parametrize("name", router.__all__)
def test_what_is_public_is_there(name: str) -> None:
    assert getattr(router, name).__name__ == name and name in dir(router)


def test_what_is_not() -> None:
    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        router.nothing_of_this_name  # noqa: B018


def test_importing_it_loads_nothing_heavy() -> None:
    script = "import sys, router, router.core.wire.reasons; print(*sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert not loaded & {"trio", "nacl", "cbor2", "msgspec", "router.client.node", "click"}


@pytest.mark.parametrize("name", ["BadText", "ClientError", "HomeError", "JournalError", "KeyringError", "UnknownName"])
def test_one_class_catches_all(name: str) -> None:
    assert issubclass(getattr(router, name), router.RouterError)
