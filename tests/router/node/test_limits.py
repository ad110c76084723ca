"""Every setting reaches the part that it limits."""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec import inspect
from msgspec.structs import replace
from samples.core import ALICE, BOB

from router.core.link.session import Offer
from router.core.neighbours.directory import Directory
from router.node.limits import (
    clock_limits,
    core_limits,
    cycle_limits,
    handshake_limits,
    housekeeping_limits,
    in_flight_bytes,
    link_limits,
    log_limits,
    pace_limits,
    store_limits,
    strangers_max,
    unknown_max,
    verifiers,
)
from router.node.welcome import offer_to, welcome
from router.settings.config import Config, by_role
from router.settings.config_limits import Limits
from router.transport.pace import PaceLimits
from transports.memory import stream_pair

ELSEWHERE = {
    "limits.frame_bytes_max", "limits.window_messages", "limits.window_bytes",  # what a node says in its hello
    "link.dial_timeout_s", "link.dial_backoff_s_min", "link.dial_backoff_s_max", "link.dials_max",  # dialling
}  # fmt: skip
"""Settings that reach their part without a copy."""
SECTIONS = ("limits", "queues", "store", "log", "verify", "link")


def numbers() -> list[str]:
    described = inspect.type_info(Config)
    assert isinstance(described, inspect.StructType)
    found = []
    for section in described.fields:
        if section.name in SECTIONS:
            assert isinstance(section.type, inspect.StructType)
            for one in section.type.fields:
                kind = one.type.type if isinstance(one.type, inspect.Metadata) else one.type
                if isinstance(kind, inspect.IntType | inspect.FloatType):
                    found.append(f"{section.name}.{one.name}")
    return found


def told_to_a_stranger(config: Config) -> list[Any]:
    """Return a stranger's welcome, and our hello to it."""
    stream, _ = stream_pair()
    stream.peer = ALICE.public
    judge = partial(welcome, Directory(BOB.public, accept_strangers=True), config, False)
    offer = Offer("router", bytes(8), True, 1 << 30, 1 << 30, bytes(16))
    return [judge(ALICE.public), offer_to(stream, offer, config, judge)]


def in_force(config: Config) -> list[Any]:
    return [
        *told_to_a_stranger(config),
        core_limits(config), store_limits(config), cycle_limits(config), log_limits(config),
        housekeeping_limits(config), clock_limits(config), link_limits(config, is_known=True),
        link_limits(config, is_known=False), in_flight_bytes(config.limits), pace_limits(config.limits),
        unknown_max(config.limits), handshake_limits(config.limits), verifiers(config),
    ]  # fmt: skip


def test_a_setting_s_default_is_that_of_the_part_which_it_limits() -> None:
    """`by_role` is applied: a log is kept as on an edge node."""
    config = by_role(Config())
    parts: list[object] = [
        core_limits(config), store_limits(config), cycle_limits(config), log_limits(config),
        housekeeping_limits(config), clock_limits(config), handshake_limits(config.limits),
        link_limits(config, is_known=True),
    ]  # fmt: skip
    assert parts == [type(part)() for part in parts]


def changed(name: str) -> Config:
    """Return the default configuration with another value of that setting."""
    section, _, setting = name.partition(".")
    before = getattr(Config(), section)
    value = getattr(before, setting)
    other = {"connections_max": 100, "verifiers": 1024}.get(setting, value + 1)
    return by_role(replace(Config(), **{section: replace(before, **{setting: other})}))


def test_another_value_is_another_limit() -> None:
    before = in_force(by_role(Config()))
    asked_by_nothing = [name for name in numbers() if name not in ELSEWHERE and in_force(changed(name)) == before]
    assert asked_by_nothing == []


def test_strangers_have_the_pace_that_the_settings_say() -> None:
    limits = Limits(messages_per_s_stranger=7, messages_per_s_strangers=70, strangers_bytes_per_s=700)
    assert pace_limits(limits) == PaceLimits(messages_per_s=7, all_messages_per_s=70, all_bytes_per_s=700)


def test_what_is_elsewhere_is_a_setting() -> None:
    assert set(numbers()) >= ELSEWHERE
    for name in ELSEWHERE:
        assert in_force(changed(name)) == in_force(by_role(Config())), f"{name} is no exception"


def test_known_keys_keep_half_of_the_connections_from_strangers_and_a_quarter_from_all_unknown_keys() -> None:
    for most in (1, 2, 10, 100, 10_000):
        limits = Limits(connections_max=most, strangers_connections_max=1_000_000)
        assert strangers_max(limits) == most // 2
        assert unknown_max(limits) <= max(1, most * 3 // 4)
    assert strangers_max(Limits()) == 64 and unknown_max(Limits()) == 128
