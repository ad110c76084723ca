"""The configuration of a dmq-node, taken over from its file (JSON) and its flags; flags take precedence, as in
dmq-node.

Each key that has no effect here is reported in a sentence, so that nobody relies on it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address

from msgspec import Struct
from msgspec.structs import replace

from .messages.authentication import Topic
from .peers.hot_places import Targets
from .protocols.handshake import MAGIC_BITS, MAGICS
from .stake.chain_time import cardano_network

CONFIG_BYTES_MAX = 1 << 20
TOPOLOGY = "the topology file"
"""Where flags are keys: a dmq-node's configuration does not name it."""
FLAGS = {
    "--local-socket": "LocalAddress", "--dmq-network-magic": "NetworkMagic",
    "--cardano-network-magic": "CardanoNetworkMagic", "--cardano-node-socket": "CardanoNodeSocket",
    "--host-addr": "IPv4", "--host-ipv6-addr": "IPv6", "--port": "PortNumber", "--topology-file": TOPOLOGY,
}  # fmt: skip
"""The key for each flag. `--min-sig-delay` has no key; the caller reads the file given by `-c`."""
_TARGETS = Targets()
_ADDRESSES = {"IPv4": IPv4Address, "IPv6": IPv6Address}
NODE_PORT = 3141
"""Where a dmq-node listens if it is told no port."""
MIN_SIG_DELAY = "--min-sig-delay"
_NO_LEDGER = "relays of the ledger come from a file: set ledger_snapshot in router.toml"
_NOT_HONOURED = {
    **dict.fromkeys(
        (
            "LedgerPeers", "TargetNumberOfKnownBigLedgerPeers", "TargetNumberOfEstablishedBigLedgerPeers",
            "TargetNumberOfActiveBigLedgerPeers",
        ),
        _NO_LEDGER,
    ),
    "TargetNumberOfRootPeers": "all roots of the topology are kept",
    "AcceptedConnectionsLimit": "a door for nodes takes 512 connections, and slowly from 384 on",
    "ProtocolIdleTimeout": "a connection on which nothing runs is closed after 5 s",
    "CardanoNodeSocket": "stake comes from a file or a command, not from cardano-node",
    "ShelleyGenesisHash": "the genesis file is taken as it is",
}  # fmt: skip
TRACES = "TraceOptions"
_PROMETHEUS = re.compile(r"PrometheusSimple(?: +(suffix|nosuffix))?(?: +([^ ]+))? +([0-9]{1,5})", re.ASCII)
"""The backend of dmq-node's tracing that serves metrics: without a host, on this machine only."""
_SECONDS = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s", re.ASCII)


class BadNodeConfig(ValueError):
    """A node cannot start with this configuration; the text says what is wrong and what to do."""


class NodeConfig(Struct, frozen=True):
    """The part of a dmq-node's configuration that has an effect here. Paths are as written; `pause_s` is a pool's, in
    seconds.

    `not_honoured`: a sentence for each key or flag that has no effect here.
    """

    local_socket: str = "dmq-node.socket"
    magic: int = MAGICS["mainnet"]
    cardano_magic: int = 764_824_073
    genesis: str = "mainnet-shelley-genesis.json"
    pause_s: float = Topic().pause_s
    metrics: str = ""
    metrics_prefix: str = "dmq_node_"
    metrics_suffix: bool = True
    ipv4: str = ""
    ipv6: str = ""
    port: int = NODE_PORT
    topology: str = ""
    diffusion_mode: str = "InitiatorAndResponder"
    peer_sharing: bool = True
    known_peers: int = _TARGETS.known
    established_peers: int = _TARGETS.established
    active_peers: int = _TARGETS.active
    churn_s: float = _TARGETS.churn_s
    not_honoured: tuple[str, ...] = ()


_HONOURED = {
    "LocalAddress": "local_socket", "NetworkMagic": "magic", "CardanoNetworkMagic": "cardano_magic",
    "ShelleyGenesisFile": "genesis", "TraceOptionMetricsPrefix": "metrics_prefix",
    "IPv4": "ipv4", "IPv6": "ipv6", "PortNumber": "port", TOPOLOGY: "topology",
    "DiffusionMode": "diffusion_mode", "PeerSharing": "peer_sharing", "TargetNumberOfKnownPeers": "known_peers",
    "TargetNumberOfEstablishedPeers": "established_peers", "TargetNumberOfActivePeers": "active_peers",
    "ChurnInterval": "churn_s",
}  # fmt: skip
OF_PEERS = ("diffusion_mode", "peer_sharing", "known_peers", "established_peers", "active_peers", "churn_s")
"""The settings about peers that are taken over as they are."""
_MODES = ("InitiatorAndResponder", "InitiatorOnly")
TARGET_MAX = {"TargetNumberOfKnownPeers": 1000, "TargetNumberOfEstablishedPeers": 400, "TargetNumberOfActivePeers": 200}
CHURN_S_MIN, CHURN_S_MAX = 10.0, 86_400.0


def read_node_config(file: bytes | None, flags: Mapping[str, str]) -> NodeConfig:
    """Return the configuration in a file and flags (by their long names, as typed); raise `BadNodeConfig`."""
    unknown = [flag for flag in flags if flag not in FLAGS and flag != MIN_SIG_DELAY]
    if unknown:
        raise BadNodeConfig(f"{unknown[0]} is no flag of dmq-node; known are {', '.join(FLAGS)}, {MIN_SIG_DELAY}")
    given: dict[str, object] = {} if file is None else _read_file(file)
    given |= {FLAGS[flag]: _typed(flag, text) for flag, text in flags.items() if flag in FLAGS}
    said = {FLAGS[flag]: flag for flag in flags if flag in FLAGS}
    kept = {
        name: _checked(key, given[key], said.get(key, key))
        for key, name in _HONOURED.items()
        if given.get(key) is not None
    }
    _check_of_one_network(kept, said)
    _take_network(kept)
    sentences = tuple(
        f"{said.get(key, key)} has no effect: {_NOT_HONOURED.get(key, 'it is no key of dmq-node')}."
        for key in given
        if key not in _HONOURED and key != TRACES
    )
    traced, more = _traced(given.get(TRACES))
    config = NodeConfig(**kept, **traced, not_honoured=(*sentences, *more))  # type: ignore[arg-type]
    return config if MIN_SIG_DELAY not in flags else _with_pause(config, flags[MIN_SIG_DELAY])


def _check_of_one_network(kept: Mapping[str, object], said: Mapping[str, str]) -> None:
    """Raise `BadNodeConfig` if both magics are given, and are of two public networks."""
    magic, cardano = kept.get("magic"), kept.get("cardano_magic")
    ours = next((name for name, known in MAGICS.items() if known == magic), "")
    theirs = cardano_network(cardano) if isinstance(cardano, int) else ""
    if ours and theirs and ours != theirs:
        names = [said.get(key, key) for key in ("NetworkMagic", "CardanoNetworkMagic")]
        raise BadNodeConfig(
            f"{names[0]} {magic} is of {ours}, and {names[1]} {cardano} is of {theirs}; give both of one network"
        )


def _take_network(kept: dict[str, object]) -> None:
    """Take the network of a file that names Cardano's public one alone, as files for one magic only do: without it the
    node would be on mainnet's."""
    cardano = kept.get("cardano_magic")
    if "magic" not in kept and isinstance(cardano, int) and (theirs := cardano_network(cardano)):
        kept["magic"] = MAGICS[theirs]


def _traced(options: object) -> tuple[dict[str, object], list[str]]:
    """Return what a configuration's tracing says of metrics, and a sentence of what else it says."""
    if options is None:
        return {}, []
    spaces = options.values() if isinstance(options, dict) else ()
    backends = [one for space in spaces if isinstance(space, dict) for one in _list(space.get("backends"))]
    said = [f"{TRACES} has no effect beyond metrics: this node has a log of its own."]
    places = [found for one in backends if (found := _PROMETHEUS.fullmatch(str(one)))]
    if not places:
        return {}, said
    suffix, host, port = places[0].groups()
    if not 0 < int(port) < 1 << 16:
        raise BadNodeConfig(f"{TRACES} names the port {port} for PrometheusSimple; ports end at 65535")
    host = f"[{host}]" if ":" in (host or "") else host or "127.0.0.1"
    return {"metrics": f"tcp://{host}:{port}", "metrics_suffix": suffix != "nosuffix"}, said


def _list(found: object) -> list[object]:
    return found if isinstance(found, list) else []


def _read_file(data: bytes) -> dict[str, object]:
    if len(data) > CONFIG_BYTES_MAX:
        raise BadNodeConfig(
            f"the configuration is longer than {CONFIG_BYTES_MAX} bytes; name a dmq-node's file with -c"
        )
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        place = ""
        if isinstance(error, json.JSONDecodeError):
            place = f", line {error.lineno}, column {error.colno} ({error.msg})"
        raise BadNodeConfig(
            f"the configuration is not JSON{place}; correct it there, or name a dmq-node's file with -c"
        ) from None
    if not isinstance(found, dict):
        raise BadNodeConfig("the configuration is no JSON object; name a dmq-node's file with -c")
    return found


def _typed(flag: str, text: str) -> object:
    if flag == "--port":
        if not (re.fullmatch("[0-9]{1,5}", text) and int(text) < 1 << 16):
            raise _no_port(flag, repr(text[:40]))
        return int(text)
    if not flag.endswith("-magic"):
        return text
    if not re.fullmatch("[0-9]{1,10}", text):
        raise BadNodeConfig(f"{flag} {text[:40]!r} is no number; give a network magic, as {MAGICS['mainnet']}")
    return int(text)


def _no_port(name: str, shown: str) -> BadNodeConfig:
    return BadNodeConfig(f"{name} {shown} is no port; give a number up to 65535, or leave it out")


def _check_address(key: str, value: object, name: str) -> None:
    try:
        _ADDRESSES[key](str(value))
    except ValueError:
        shown = repr(str(value)[:40])
        raise BadNodeConfig(f"{name} {shown} is no {key} address; give one, or leave it out") from None


def _checked(key: str, value: object, name: str) -> object:
    """Return the value of a key if it is one; `name`: the flag that gave it, else the key."""
    if key.endswith("Magic"):
        if type(value) is not int or not 0 <= value < 1 << MAGIC_BITS:
            raise BadNodeConfig(
                f"{name} is no number below 2^{MAGIC_BITS}; give a network magic, as {MAGICS['mainnet']}"
            )
    elif key in _ADDRESSES:
        _check_address(key, value, name)
    elif key in TARGET_MAX:
        if type(value) is not int or not 0 <= value <= TARGET_MAX[key]:
            raise BadNodeConfig(f"{name} is {value!r:.20}; give a whole number up to {TARGET_MAX[key]}")
    elif key == "ChurnInterval":
        if isinstance(value, bool) or not isinstance(value, int | float) or not CHURN_S_MIN <= value <= CHURN_S_MAX:
            raise BadNodeConfig(f"{name} is {value!r:.20}; give seconds, from {CHURN_S_MIN:g} to {CHURN_S_MAX:g}")
        return float(value)
    elif key == "PeerSharing":
        if not isinstance(value, bool):
            raise BadNodeConfig(f"{name} is {value!r:.20}; write true or false")
    elif key == "DiffusionMode":
        if value not in _MODES:
            raise BadNodeConfig(f"{name} is {value!r:.40}; write {' or '.join(_MODES)}")
    elif key == "PortNumber":
        if type(value) is not int or not 0 <= value < 1 << 16:
            raise _no_port(name, str(value)[:40])
    elif key == "TraceOptionMetricsPrefix":
        if not isinstance(value, str) or not re.fullmatch("[a-zA-Z_][a-zA-Z0-9_.]{0,31}", value):
            raise BadNodeConfig(f"{key} is no beginning of a metric's name; write letters, digits and _")
        return value.replace(".", "_")
    elif not isinstance(value, str) or not value or "\0" in value:
        raise BadNodeConfig(f"{name} is no path; give one as a text")
    return value


def _with_pause(config: NodeConfig, text: str) -> NodeConfig:
    """Return the configuration with that pause; for tests only, as in dmq-node, so never on mainnet."""
    found = _SECONDS.fullmatch(text)
    if found is None:
        raise BadNodeConfig(f"{MIN_SIG_DELAY} {text[:40]!r} is no time; give seconds, as 0.01s")
    if config.magic == MAGICS["mainnet"]:
        raise BadNodeConfig(f"{MIN_SIG_DELAY} is for test networks; leave it out on mainnet")
    return replace(config, pause_s=float(found[1]))
