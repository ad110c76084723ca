"""`router dmq serve`: run a DMQ node, alone or beside the services of the home's router."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import click

from router.cli.command import Command, invocation, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import note
from router.cli.services import names_of, serve_with, settings_of
from services.dmq.command_options import read_file, read_genesis_file
from services.dmq.core.networks import name_of, network_of
from services.dmq.core.node_config import (
    MIN_SIG_DELAY,
    NODE_PORT,
    OF_PEERS,
    BadNodeConfig,
    NodeConfig,
    read_node_config,
)
from services.dmq.core.peers.topology import TOPOLOGY_BYTES_MAX, BadTopology, read_topology
from services.dmq.core.protocols.handshake import MAGICS
from services.dmq.core.stake.chain_time import CARDANO_MAGICS, GENESIS_BYTES_MAX, cardano_network, genesis_network
from services.dmq.core.stake.distribution import STAKE_BYTES_MAX, BadStake, read_stake
from services.dmq.given_again import absolute_command, given_again, is_anywhere
from services.dmq.home_node import MODULE
from services.dmq.settings import Settings

MAGIC, CARDANO_MAGIC = "--dmq-network-magic", "--cardano-network-magic"


@click.command(cls=Command)
@click.option("--network", metavar="NAME|MAGIC", help="mainnet, preprod, preview, or the DMQ magic of another network.")
@click.option(
    "--local-socket",
    metavar="PATH",
    help="The socket of signers and aggregators; PATH?mode=660&group=NAME lets others use it.",
)
@click.option(
    "--consumer",
    "consumers",
    multiple=True,
    metavar="NAME=PATH",
    help="A durable consumer with a socket of its own, as --local-socket: it goes on where it stopped. Repeatable.",
)
@click.option("--stake", metavar="FILE|COMMAND", help="Stake by pool: cardano-cli's file, or a command that prints it.")
@click.option("--genesis", metavar="FILE", help="The network's Shelley genesis.")
@click.option(
    "--metrics", metavar="URL", help="Where Prometheus reads metrics, as tcp://127.0.0.1:12000; none: nowhere."
)
@click.option("-c", "--configuration-file", metavar="FILE", help="The configuration file of a dmq-node.")
@click.option(
    "-t", "--topology-file", metavar="FILE", help="The other nodes, as dmq-node's; read again when it changes."
)
@click.option("--host-addr", metavar="IP", help="Where other nodes connect, as a dmq-node's.")
@click.option("--host-ipv6-addr", metavar="IP", help="Where other nodes connect over IPv6, besides --host-addr.")
@click.option("-p", "--port", metavar="PORT", help=f"The port for other nodes, as a dmq-node's. Default: {NODE_PORT}.")
@click.option("--cardano-node-socket", metavar="PATH", help="A dmq-node's option, without effect here.")
@click.option("--cardano-network-magic", metavar="MAGIC", help="The magic of the Cardano network, as a dmq-node's.")
@click.option("--dmq-network-magic", metavar="MAGIC", help="The magic of the DMQ network, as a dmq-node's.")
@click.option(
    "--min-sig-delay", metavar="TIME", help="The least pause of a pool, such as 0.01s, as a dmq-node's; not on mainnet."
)
@json_option
def serve(
    network: str | None,
    local_socket: str | None,
    consumers: tuple[str, ...],
    stake: str | None,
    genesis: str | None,
    metrics: str | None,
    configuration_file: str | None,
    as_json: bool,
    **flags: str | None,
) -> None:
    """Run a DMQ node in the foreground, for the signers and aggregators of this machine.

    It runs in the home, as a service of a node that needs no neighbours; settings in the home's configuration hold
    unless given here. A dmq-node's file and flags are accepted; each key without effect here is reported.
    """
    _check_alone()
    if local_socket is not None:
        flags["local_socket"] = local_socket
    typed = {f"--{name.replace('_', '-')}": value for name, value in flags.items() if value is not None}
    settings = _as_dmq_node(network, configuration_file, typed)
    if genesis is not None:
        settings["genesis"] = str(Path(genesis).absolute())
    if metrics is not None:
        settings["metrics"] = "" if metrics == "none" else metrics
    effective = settings_of(invocation().chosen_home, MODULE) | settings
    source = "--network" if network is not None else MAGIC if MAGIC in typed else f"{configuration_file}: NetworkMagic"
    if "network" in settings:
        _check_times(_magic_of(str(settings["network"])), source, has_genesis=bool(effective.get("genesis")))
    _check_genesis(effective)
    named = tuple(_consumer(one) for one in consumers)
    _tell_consumers(named, effective.get("consumers", ()))
    if named:
        settings["consumers"] = named
    if stake is not None:
        settings |= _stake(stake)
        _check_stake(settings)
    context = click.get_current_context()
    words = given_again(context.command.params, context.params)
    serve_with(MODULE, settings, ("dmq", "serve", *words), is_anywhere=is_anywhere(effective), as_json=as_json)


def _check_alone() -> None:
    """Raise `Failure` if the home has several DMQ nodes."""
    path, names = invocation().chosen_home.path, names_of(invocation().chosen_home, MODULE)
    if len(names) > 1:
        said = f"there are several DMQ nodes in the home {path}: {', '.join(names)}"
        raise Failure(Exit.USAGE, f"{said}; `router --home {path} serve` runs them as router.toml says")


def _as_dmq_node(network: str | None, file: str | None, typed: Mapping[str, str]) -> dict[str, object]:
    """Return the settings in a dmq-node's file and flags; --network comes before theirs."""
    settings: dict[str, object] = {}
    if network is not None:
        _check_agree(network, typed)
        if MIN_SIG_DELAY in typed:
            typed = {**typed, MAGIC: typed.get(MAGIC, str(_magic_of(network)))}
    if file is not None or typed:
        config = _node_config(file, typed)
        settings |= _of_node_config(config, file, typed)
        if network is not None and config.magic not in (NodeConfig().magic, _magic_of(network)):
            note(f"--network {network} comes before the network {name_of(config.magic)} of {file}")
    if network is not None:
        settings["network"] = network
    return settings


def _check_agree(network: str, typed: Mapping[str, str]) -> None:
    """Raise `Failure` if the flags name two networks."""
    magic = _magic_of(network)
    for flag, what, expected in (
        (MAGIC, "magic", magic),
        (CARDANO_MAGIC, "Cardano magic", CARDANO_MAGICS.get(name_of(magic))),
    ):
        if typed.get(flag, "").isdecimal() and expected is not None and int(typed[flag]) != expected:
            said = f"--network {network} has the {what} {expected}, and {flag} names {typed[flag]}"
            raise Failure(Exit.USAGE, f"{said}; leave one of them out")


def _check_times(magic: int, source: str, *, has_genesis: bool) -> None:
    """Raise `Failure` if the times of the network that was given are not known; `source`: what gives its magic."""
    if network_of(str(magic)).chain is not None:
        return
    said = f"{source} {magic}"
    if theirs := cardano_network(magic):
        said += f" is Cardano {theirs}'s magic (CardanoNetworkMagic), and that of its DMQ network is {MAGICS[theirs]}"
        if has_genesis:
            note(f"{said}; give that, unless this is a network of your own")
            return
        said += "; give that"
    elif has_genesis:
        return
    else:
        said += " is that of a network whose times are not known; name its Shelley genesis with --genesis"
    nothing = "" if invocation().chosen_home.holds_node else "; nothing was made"
    raise Failure(Exit.USAGE, f"{said}{nothing}")


def _check_genesis(settings: Mapping[str, object]) -> None:
    """Raise `Failure` if the genesis in the settings is none, or that of another public network than theirs."""
    path = Path(str(settings.get("genesis") or ""))
    if not path.name:
        return
    read_genesis_file(path)
    network = str(settings.get("network", Settings().network))
    ours, theirs = name_of(_magic_of(network)), genesis_network(read_file(path, GENESIS_BYTES_MAX))
    if theirs and ours in CARDANO_MAGICS and ours != theirs:
        said = f"the genesis {path} is of {theirs}, and the network is {ours}"
        raise Failure(Exit.USAGE, f"{said}; give the genesis of {ours} with --genesis, or {theirs} with --network")


def _magic_of(network: str) -> int:
    try:
        return network_of(network).magic
    except ValueError as error:
        raise Failure(Exit.USAGE, f"--{error}") from None


def _node_config(file: str | None, typed: Mapping[str, str]) -> NodeConfig:
    try:
        config = read_node_config(Path(file).read_bytes() if file is not None else None, typed)
    except OSError as error:
        raise Failure(Exit.USAGE, f"{file} cannot be read: {error.strerror}; name a dmq-node's file") from None
    except BadNodeConfig as error:
        where = "" if file is None or str(error).startswith("--") else f"{file}: "
        raise Failure(Exit.USAGE, f"{where}{error}") from None
    for sentence in config.not_honoured:
        note(sentence)
    if (topology := typed.get("--topology-file")) is not None:
        _check_topology(topology)
    return config


def _check_topology(path: str) -> None:
    """Raise `Failure` for a topology that cannot be read at the first start; later the one before stays in force."""
    if invocation().chosen_home.holds_node:
        return
    try:
        read_topology(read_file(Path(path), TOPOLOGY_BYTES_MAX))
    except BadTopology as error:
        raise Failure(Exit.USAGE, f"{path}: {error}") from None


def _of_node_config(config: NodeConfig, file: str | None, typed: Mapping[str, str]) -> dict[str, object]:
    """Return the settings in a dmq-node's file and flags; without a file, only those that the flags name."""
    found: dict[str, object] = {}
    if file is not None or "--local-socket" in typed:
        found["local_socket"] = _unix(config.local_socket)
    if file is not None or MAGIC in typed:
        found["network"] = name_of(config.magic)
    if file is not None and (genesis := Path(file).parent / config.genesis).exists():
        found["genesis"] = str(genesis.absolute())
    elif file is not None and config.genesis != NodeConfig().genesis:
        instead = "; the constants of the network hold" if network_of(str(config.magic)).chain else ""
        note(f"ShelleyGenesisFile names {genesis.absolute()}, which does not exist{instead}")
    if config.metrics:
        found |= {name: getattr(config, name) for name in ("metrics", "metrics_prefix", "metrics_suffix")}
    if MIN_SIG_DELAY in typed:
        found["pause_s"] = config.pause_s
    return found | _listening(config, typed) | _of_peers(config)


def _listening(config: NodeConfig, typed: Mapping[str, str]) -> dict[str, object]:
    """Return the settings of where other nodes connect."""
    found: dict[str, object] = {}
    if config.ipv4:
        found["listen"] = f"tcp://{config.ipv4}:{config.port}"
    if config.ipv6:
        found["listen_ipv6"] = f"tcp://[{config.ipv6}]:{config.port}"
    if not found and "--port" in typed:
        note("--port has no effect without an address to listen at; give --host-addr, as 0.0.0.0")
    return found


def _of_peers(config: NodeConfig) -> dict[str, object]:
    """Return the settings of which nodes to speak to, as far as they differ from what holds anyway."""
    found = {name: getattr(config, name) for name in OF_PEERS if getattr(config, name) != getattr(NodeConfig(), name)}
    if config.topology:
        found["topology_file"] = str(Path(config.topology).absolute())
    return found


def _unix(path: str) -> str:
    """Return the URL of a socket; a relative path begins at the working directory, as for a dmq-node."""
    return path if path.startswith("unix:") else f"unix:{Path(path).absolute()}"


def _consumer(text: str) -> str:
    name, equals, path = text.partition("=")
    if not equals or not path or not re.fullmatch("[A-Za-z0-9][A-Za-z0-9_-]{0,31}", name):
        said = f'--consumer "{text[:80]}" is not NAME=PATH'
        raise Failure(Exit.USAGE, f"{said}; a name has letters, digits, - and _, 32 at most")
    return f"{name}={_unix(path)}"


def _tell_consumers(given: Iterable[str], written: Iterable[str]) -> None:
    """Say where the consumers are named, if the home's configuration names some that the flags do not."""
    ours, theirs = (", ".join(sorted(one.partition("=")[0] for one in some)) for some in (given, written))
    if theirs and not ours:
        note(f"the consumers are those that router.toml names: {theirs}; --consumer gives others in their place")
    elif theirs and set(given) != set(written):
        note(f"--consumer gives {ours} in the place of all consumers that router.toml names: {theirs}")


def _check_stake(settings: Mapping[str, object]) -> None:
    """Raise `Failure` for a stake file that cannot be read at the first start; later the one that was read last stays
    in force."""
    path = str(settings.get("stake_file") or "")
    if path and not invocation().chosen_home.holds_node:
        try:
            read_stake(read_file(Path(path), STAKE_BYTES_MAX), 0.0)
        except BadStake as error:
            raise Failure(Exit.USAGE, f"{path}: {error}; nothing was made") from None


def _stake(text: str) -> dict[str, object]:
    """Return the settings for the source of stake; in a home with a node its other source gives way, too."""
    others = {"stake_file": "", "stake_command": ()} if invocation().chosen_home.holds_node else {}
    return others | _source(text)


def _source(text: str) -> dict[str, object]:
    """Return the setting: a file if it exists or is that of the home, whose stake was kept; else a command."""
    path = Path(text)
    is_kept = str(path.absolute()) == settings_of(invocation().chosen_home, MODULE).get("stake_file")
    if is_kept or (path.is_file() and not os.access(path, os.X_OK)):
        return {"stake_file": str(path.absolute())}
    words = absolute_command(text)
    program = Path(words[0] if words else "")
    if len(words) < 2 and (program.is_dir() or not os.access(program, os.X_OK)):
        said = f"--stake {text}: there is no such file, and no program of that name that can be run"
        if path.is_dir():
            said = f"--stake {text} is a directory"
        raise Failure(Exit.USAGE, f"{said}; give the output of cardano-cli query stake-snapshot --all-stake-pools")
    return {"stake_command": tuple(words)}
