"""Commands find a service by its role, whatever its name is."""

from __future__ import annotations

from pathlib import Path

import pytest

from router.cli.services import name_with_role
from router.core.service.roles import Role
from router.settings import keyring
from router.settings.home import Home

RENAMED = '[[node.services]]\nname = "crowd"\nmodule = "services.pubsub"\n'
BROKEN = '[[node.services]]\nname = "odd"\nmodule = "no_such_module"\n' + RENAMED
WITHOUT = '[node]\nservices = ["services.echo"]\n'


@pytest.mark.parametrize(
    ("config", "role", "name"),
    [
        (RENAMED, Role.OVERLAY, "crowd"), (BROKEN, Role.OVERLAY, "crowd"), (RENAMED, Role.FINDER, "discovery"),
        (WITHOUT, Role.OVERLAY, "pubsub"), ("not = [toml", Role.FINDER, "discovery"),
    ],
)  # fmt: skip
def test_name_with_role_is_that_of_the_configuration(tmp_path: Path, config: str, role: Role, name: str) -> None:
    home = Home(tmp_path / "home")
    home.create()
    keyring.load_or_create(home, keyring.NODE)
    home.config_path.write_text(config)
    assert name_with_role(home, role) == name
