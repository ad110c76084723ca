"""Errors of settings: each says in words what is taken, by example, and nothing that is not taken."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import pytest
from msgspec import inspect

from router.cli.preflight import rules
from router.settings import config
from router.settings.home import Home

SERVICES = sorted(Path("services").glob("*/settings.py"))


def without_form(kind: object, where: str, form: str = "") -> Iterator[str]:
    """Yield the settings below `where` whose error would show a pattern, as no words for it are given."""
    match kind:
        case inspect.Metadata(type=inner, extra=extra):
            yield from without_form(inner, where, (extra or {}).get("form", form))
        case inspect.StructType(fields=fields):
            for one in fields:
                yield from without_form(one.type, f"{where}.{one.encode_name}")
        case inspect.VarTupleType(item_type=item) | inspect.DictType(value_type=item):
            yield from without_form(item, where, form)
        case inspect.UnionType(types=kinds):
            for each in kinds:
                yield from without_form(each, where, form)
        case inspect.StrType(pattern=pattern) if pattern and not form:
            yield where


@pytest.mark.parametrize("path", SERVICES, ids=lambda path: path.parent.name)
def test_no_error_of_a_service_s_setting_shows_a_pattern(path: Path) -> None:
    module = importlib.import_module(f"services.{path.parent.name}.settings")
    assert list(without_form(inspect.type_info(module.Settings), path.parent.name)) == []


def test_no_error_of_the_node_s_settings_shows_a_pattern() -> None:
    assert list(without_form(inspect.type_info(config.Config), "")) == []
    odd = Annotated[str, msgspec.Meta(pattern="^a$")]
    assert list(without_form(inspect.type_info(tuple[odd, ...]), "x")) == ["x"], "what has no words is found"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('listen = "udp://127.0.0.1:1"', "it must be tcp://HOST:PORT, or empty"),
        ('listen = "6161"', "it must be tcp://HOST:PORT, or empty"),
        ('listen_ipv6 = "unix:x"', "it must be tcp://HOST:PORT, or empty"),
        ('local_socket = ""', "it must be unix:PATH?mode=660&group=NAME"),
        ('local_socket = "tcp://127.0.0.1:1"', "it must be unix:PATH?mode=660&group=NAME"),
        (
            'group = "dmq preview"',
            "it must be a group's name as `router group list` shows it, as dmq-preview, or empty",
        ),
        (
            'srv_services = ["mithril"]',
            "it must be a service's name in DNS, each word of which begins with _, as _dmq._mithril._cardano._tcp",
        ),
        (
            'consumers = ["x.socket"]',
            "it must be NAME=unix:PATH, as aggregator=unix:/dmq/ipc/aggregator.socket?mode=660&group=cardano, where "
            "NAME has letters, digits, - and _, 32 at most",
        ),
    ],
)
def test_an_error_of_the_dmq_s_settings_says_what_is_taken(line: str, said: str, tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.config_path.write_text(f'[node]\nservices = ["services.dmq"]\n[services.dmq]\n{line}\n')
    [problem] = config.check(home.config_path, rules(home))
    assert problem.startswith("router.toml line 4: services.dmq.") and problem.endswith(f"; {said}")
