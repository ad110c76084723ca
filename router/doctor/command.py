"""`router doctor`: gather facts about node, machine and network, judge them, and print a line for each check."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import click
import trio
from msgspec.structs import asdict

from router.cli import loop
from router.cli.ask import whole_answer
from router.cli.command import Command, invocation, json_option
from router.cli.exits import Exit, Failure, innermost
from router.cli.output import address_text, for_this_home, hint, say, say_json
from router.cli.preflight import neighbour_warnings, rules, service_warnings, unusable_keys
from router.cli.version import own_version
from router.client.node import connect
from router.core.service.roles import Role
from router.core.wire.address import TransportAddress, addresses_of_node
from router.core.wire.crypto import SigningKey
from router.core.wire.errors import RouterError
from router.core.wire.text import clean, short
from router.doctor import home_checks, network_checks
from router.doctor import network_probe as network
from router.doctor.finding import (
    AdvertisedAddress,
    DialBackAnswer,
    DialResult,
    DiskFacts,
    Finding,
    InterfaceCheck,
    LanFacts,
    Running,
    SamplingFacts,
)
from router.doctor.home_probe import probe_apps, probe_descriptors, probe_disk, probe_format
from router.settings import config as configuration
from router.settings import keyring
from router.settings.config import Config
from router.settings.config_text import ConfigError
from router.settings.home import Home
from router.transport import contract as transport

NODE_S = 10.0
LAN_S = 10.0
REACH_S = 20.0
NEIGHBOURS_MAX = 20
ASKED_MAX = 3
SAMPLED = ("neighbours", "seeds")
MARKS = {True: "ok", False: "BAD", None: "?"}


@dataclass
class Facts:
    """The facts that the checks judge. `names_listen`: whether router.toml says where to listen; `taken`: by URL, why
    nobody can listen there; `dials`: by URL, who answered there; `why_not_asked`: why the discovery service was not
    asked; `sampling`: None on a node that does not exchange advertisements."""

    names_listen: bool = False
    running: Running | None = None
    why_not_running: str = ""
    disk: DiskFacts = field(default_factory=lambda: DiskFacts(""))
    taken: dict[str, str] = field(default_factory=dict)
    dials: dict[str, DialResult] = field(default_factory=dict)
    addresses: list[AdvertisedAddress] = field(default_factory=list)
    format_fault: str = ""
    unusable_states: list[str] = field(default_factory=list)
    interfaces: tuple[InterfaceCheck, ...] = ()
    why_not_asked: str = ""
    lan_rows: tuple[Mapping[str, Any], ...] | None = None
    why_no_lan: str = ""
    lan_problem: str = ""
    lan_full: str = ""
    dialled_back: list[DialBackAnswer] = field(default_factory=list)
    why_not_reached: str = ""
    sampling: SamplingFacts | None = None


@click.command(cls=Command)
@json_option
def doctor(as_json: bool) -> None:
    """Check this node, its machine and its network: what is wrong, what that means, and how to mend it.

    A line for each check: ok, BAD, or ? for what cannot be told from here. Without a running node, what needs none is
    checked. Exit code 0 if nothing is wrong, 1 if something is, 3 if no node runs.
    """
    home = invocation().home
    hint("checking; this takes some seconds")
    findings, is_running = loop.run(examine, home)
    if as_json:
        say_json([asdict(one) for one in findings])
    else:
        for one in findings:
            remedy = f"; {one.remedy}" if one.remedy else ""
            say(for_this_home(clean(f"{MARKS[one.ok]:<4} {one.check:<13} {one.found}{remedy}", 1000)))
    bad = sum(one.ok is False for one in findings)
    if not is_running:
        cause = home.why_no_socket() or "no node runs; `router serve` starts it"
        raise Failure(Exit.NO_NODE, f"only what needs no node was checked: {cause}")
    if bad:
        raise Failure(Exit.FAILED, f"{bad} of {len(findings)} checks found something wrong")


async def examine(home: Home) -> tuple[list[Finding], bool]:
    """Return the findings of all checks of a home, and whether its node runs. Each part is bounded in time."""
    path = home.config_path
    problems = configuration.check(path, (*rules(home), lambda config: unusable_keys(home, config)))
    config, origins = configuration.by_role(Config()), dict[str, str]()
    with suppress(ConfigError):
        config, origins = configuration.load(path)
    fault = keyring.fault(home, keyring.NODE)
    key = None if fault else keyring.load(home, keyring.NODE)
    facts = await _gather(Facts(names_listen=origins.get("node.listen", "default") != "default"), home, config, key)
    return list(_judged(home, config, problems, fault, key, facts)), facts.running is not None


# -- facts -----------------------------------------------------------------------------------------------------------


async def _gather(facts: Facts, home: Home, config: Config, key: SigningKey | None) -> Facts:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_gather_machine, facts, home)
        await _ask_node(facts, home)
        listen = listeners_of(facts, config)
        for url in listen:
            nursery.start_soon(_gather_port, facts, url, key)
        for address in addresses_of_node(config.node.advertise or listen):
            nursery.start_soon(_gather_address, facts, address)
        await _ask_discovery(facts, home, listen)
    return facts


async def _gather_machine(facts: Facts, home: Home) -> None:
    facts.disk = await probe_disk(home)
    facts.format_fault = await probe_format(home)
    facts.unusable_states = await probe_apps(home)
    facts.interfaces = await network.probe_interfaces()


async def _ask_node(facts: Facts, home: Home) -> None:
    why = "the node does not answer; see its log, and start it again"
    try:
        with trio.move_on_after(NODE_S):
            async with connect(home=home) as node:
                status = await whole_answer(node, "status", timeout_s=NODE_S)
                peers = await whole_answer(node, "peers", timeout_s=NODE_S)
            facts.running = Running(status, tuple(one for one in peers if one["standing"] != "local"))
            return
    except* RouterError as group:
        why = str(innermost(group))
    facts.why_not_running = why


def listeners_of(facts: Facts, config: Config) -> tuple[str, ...]:
    """Return the URLs where other machines may connect: those of the running node, and those of the configuration."""
    named = {transport.told_as(one): one for one in config.node.listen}
    running = tuple(named.get(one, one) for one in facts.running.status["listeners"]) if facts.running else ()
    known = [url.rpartition(":")[0] for url in running]
    configured = (one for one in config.node.listen if not (one.endswith(":0") and one.rpartition(":")[0] in known))
    found = (*running, *configured) if facts.names_listen or not running else running
    return tuple(dict.fromkeys(one for one in found if not transport.is_local(one)))


async def _gather_port(facts: Facts, url: str, key: SigningKey | None) -> None:
    if facts.running is not None:
        facts.dials[url] = await network.dial(url)
    elif key is not None:
        facts.taken[url] = await network.why_not_free(url, key)


async def _gather_address(facts: Facts, address: TransportAddress) -> None:
    facts.addresses.append(await network.probe_address(address, dials=facts.running is not None))


async def _ask_discovery(facts: Facts, home: Home, listen: Sequence[str]) -> None:
    """Ask the discovery service which nodes it has heard on the LAN, and have it ask neighbours to dial back."""
    running = facts.running
    if running is None:
        facts.why_not_asked = "no node runs"
    elif not (finders := [one["name"] for one in running.status["services"] if one.get("role") == Role.FINDER]):
        facts.why_not_asked = 'no discovery service runs here; add "services.discovery" to node.services'
    if facts.why_not_asked or running is None:
        return
    ports = sorted(network.ports_of(listen))
    known = sorted(running.peers, key=lambda one: bool(one["state"] != "connected"))
    whom = [one["address"] for one in known if one["state"] == "connected" or one["urls"]][:ASKED_MAX]
    names = {one["address"]: one["name"] or short(address_text(one["address"])) for one in running.peers}
    lan = await _ask_service(home, finders[0], "lan list", LAN_S)
    if isinstance(lan, dict):
        facts.lan_rows, facts.lan_problem = tuple(lan["networks"]), lan["problem"]
        facts.lan_full = lan.get("full", "")
    else:
        facts.why_no_lan = str(lan)
    sampling = await _ask_service(home, finders[0], "sampling", LAN_S)
    if isinstance(sampling, dict):
        called = {one: names.get(one, short(address_text(one))) for of in SAMPLED for one in sampling[of]}
        near, seeds = (tuple(called[one] for one in sampling[of]) for of in SAMPLED)
        away = tuple(names[one["address"]] for one in known if one["state"] == "away" and one["urls"])
        facts.sampling = SamplingFacts(near, seeds, sampling["known"], away, sampling["private"])
    if not ports or not whom:
        facts.why_not_reached = "no neighbour is known" if ports else "this node listens on no port for others"
        return
    answers = await _ask_service(home, finders[0], f"reach {ports[0]} {' '.join(whom)}", REACH_S)
    if not isinstance(answers, list):
        facts.why_not_reached = str(answers)
        return
    facts.dialled_back = [DialBackAnswer(names.get(one["router"], ""), one["at"], one["why"]) for one in answers]


async def _ask_service(home: Home, name: str, question: str, timeout_s: float) -> Any:
    """Return the service's answer; if it is an error, or does not come in time, a sentence instead."""
    answer: Any = {"error": "the discovery service does not answer; `router status` tells more"}
    try:
        with trio.move_on_after(timeout_s):
            async with connect(home=home) as node:
                answer = json.loads(await node.ask("service", f"{name} {question}", timeout_s=timeout_s))
    except* RouterError as group:
        answer = {"error": str(innermost(group))}
    return answer["error"] if isinstance(answer, dict) and "error" in answer else answer


# -- judgements ------------------------------------------------------------------------------------------------------


def _judged(
    home: Home, config: Config, problems: list[str], fault: str, key: SigningKey | None, facts: Facts
) -> Iterator[Finding]:
    running, disk, public = facts.running, facts.disk, b"" if key is None else bytes(key.public)
    missing = "" if home.config_path.exists() else configuration.no_file(home.config_path)
    yield home_checks.judge_config(problems, str(home.config_path), missing)
    if not problems:
        yield from home_checks.judge_warnings("services", service_warnings(config))
        yield from home_checks.judge_warnings("neighbour", neighbour_warnings(config))
    yield home_checks.judge_key(public, str(home.key_path), fault, running)
    yield network_checks.judge_node(running, facts.why_not_running, own_version())
    if running is not None:
        yield from network_checks.judge_copy(running)
        yield from network_checks.judge_superseded(running)
        yield from network_checks.judge_alarms(running)
    yield network_checks.judge_clock(running, config.limits.clock_offset_s_max, time.time(), disk.newest_s)
    listen = listeners_of(facts, config)
    yield from _judged_listeners(config, listen, public, facts)
    yield from network_checks.judge_addresses(
        facts.addresses, config, public, network.ports_of(listen), on_loopback=network.is_on_loopback(listen)
    )
    yield network_checks.judge_reachability(facts.dialled_back, facts.why_not_asked or facts.why_not_reached)
    if facts.sampling is not None:
        yield network_checks.judge_sampling(facts.sampling)
    why = facts.why_not_asked or facts.why_no_lan
    yield network_checks.judge_lan(
        LanFacts(facts.interfaces, network.tunnel(), facts.lan_rows, why, facts.lan_problem, facts.lan_full)
    )
    yield from home_checks.judge_warnings("format", filter(None, (facts.format_fault,)))
    yield home_checks.judge_disk(disk, config)
    yield home_checks.judge_sync(disk, config)
    yield from home_checks.judge_backup(running, config)
    yield from home_checks.judge_warnings("app", facts.unusable_states)
    descriptors = probe_descriptors(None if running is None else running.status)
    yield home_checks.judge_limits(descriptors, config, len(listen))
    yield from network_checks.judge_guests(running)
    yield from network_checks.judge_neighbours(running, NEIGHBOURS_MAX)
    if running is None:
        yield from network_checks.judge_blocked_in_file(config)


def _judged_listeners(config: Config, listen: Sequence[str], key: bytes, facts: Facts) -> Iterator[Finding]:
    if not listen:
        yield network_checks.judge_nothing_listens(config)
    running = facts.running.status["listeners"] if facts.running is not None else ()
    for url in listen:
        dial = facts.dials.get(url)
        started = transport.told_as(url) in running
        yield network_checks.judge_port(url, facts.taken.get(url, ""), dial, started)
        if dial is not None and (found := network_checks.judge_tls(url, dial, key)) is not None:
            yield found
