"""A dmq-node's configuration: its defaults, its file, its flags, and a sentence for what has no effect here."""

from __future__ import annotations

import json

import msgspec
import pytest

from services.dmq.core.node_config import (
    CHURN_S_MAX,
    CHURN_S_MIN,
    NODE_PORT,
    OF_PEERS,
    TARGET_MAX,
    BadNodeConfig,
    NodeConfig,
    read_node_config,
)
from services.dmq.core.protocols.handshake import MAGICS
from services.dmq.settings import Settings

GUIDE = {
    "NetworkMagic": MAGICS["preview"],
    "CardanoNetworkMagic": 2,
    "CardanoNodeSocket": "/run/cardano/node.socket",
    "ShelleyGenesisFile": "/etc/cardano/shelley-genesis.json",
    "PeerSharing": False,
    "TraceOptions": {"": {"backends": ["Stdout MachineFormat"], "severity": "Info"}},
    "PeerSelectionCounters": True,
}
"""The configuration in mithril's guide for operators."""


def test_without_file_and_flags_it_is_dmq_nodes_defaults() -> None:
    assert read_node_config(None, {}) == NodeConfig(
        "dmq-node.socket", 2_912_307_721, 764_824_073, "mainnet-shelley-genesis.json", 60.0, "", "dmq_node_"
    )


def test_the_guides_file_is_honoured_or_answered_key_by_key() -> None:
    found = read_node_config(json.dumps(GUIDE).encode(), {"--local-socket": "/run/dmq.socket", "--port": "6161"})
    assert (found.local_socket, found.magic, found.cardano_magic) == ("/run/dmq.socket", 2_147_483_650, 2)
    assert not found.peer_sharing
    assert found.genesis == "/etc/cardano/shelley-genesis.json"
    assert found.not_honoured == (
        "CardanoNodeSocket has no effect: stake comes from a file or a command, not from cardano-node.",
        "PeerSelectionCounters has no effect: it is no key of dmq-node.",
        "TraceOptions has no effect beyond metrics: this node has a log of its own.",
    )
    assert found.metrics == "" and (found.ipv4, found.ipv6, found.port) == ("", "", 6161)


@pytest.mark.parametrize(
    ("backend", "url", "has_suffix"),
    [
        ("PrometheusSimple suffix 127.0.0.1 12000", "tcp://127.0.0.1:12000", True),
        ("PrometheusSimple nosuffix 0.0.0.0 12000", "tcp://0.0.0.0:12000", False),
        ("PrometheusSimple 12000", "tcp://127.0.0.1:12000", True),
        ("PrometheusSimple suffix ::1 12000", "tcp://[::1]:12000", True),
        ("EKGBackend", "", True),
    ],
)
def test_metrics_are_where_the_tracing_of_a_dmq_node_has_them(backend: str, url: str, has_suffix: bool) -> None:
    options = {"": {"severity": "Info"}, "Net": {"backends": ["Stdout MachineFormat", backend]}}
    file = json.dumps({"TraceOptions": options, "TraceOptionMetricsPrefix": "dmq.node_"}).encode()
    found = read_node_config(file, {})
    assert (found.metrics, found.metrics_suffix, found.metrics_prefix) == (url, has_suffix, "dmq_node_")


def test_a_flag_without_effect_is_named_as_it_was_typed() -> None:
    said = "--cardano-node-socket has no effect: stake comes from a file or a command, not from cardano-node."
    assert read_node_config(b'{"CardanoNodeSocket": "x"}', {"--cardano-node-socket": "y"}).not_honoured == (said,)


def test_where_nodes_connect_is_taken_from_the_file_and_the_flags() -> None:
    flags = {"--host-addr": "0.0.0.0", "--host-ipv6-addr": "::", "--port": "65535", "--topology-file": "x"}
    found = read_node_config(b'{"PortNumber": 1, "IPv4": "1.2.3.4"}', flags)
    assert (found.ipv4, found.ipv6, found.port, found.topology) == ("0.0.0.0", "::", 65_535, "x")
    assert found.not_honoured == ()
    assert read_node_config(b'{"IPv6": "::1"}', {}).port == NODE_PORT == 3141


def test_flags_win_over_the_file() -> None:
    file = b'{"NetworkMagic": 1, "LocalAddress": "a"}'
    found = read_node_config(file, {"--dmq-network-magic": "42", "--local-socket": "b", "--min-sig-delay": "0.01s"})
    assert (found.magic, found.local_socket, found.pause_s) == (42, "b", 0.01)


@pytest.mark.parametrize("cardano", [None, 2, 42])
def test_the_network_is_that_of_a_public_cardano_network_that_is_named_alone(cardano: int | None) -> None:
    """A file for one magic alone names Cardano's; without it the node would be on mainnet's network."""
    file = b"{}" if cardano is None else b'{"CardanoNetworkMagic": %d}' % cardano
    found = read_node_config(file, {})
    assert found.cardano_magic == (NodeConfig().cardano_magic if cardano is None else cardano)
    assert found.magic == (2_147_483_650 if cardano == 2 else NodeConfig().magic)


def test_a_network_of_ones_own_may_be_beside_any_cardano_network() -> None:
    assert read_node_config(None, {"--dmq-network-magic": "2147483649"}).magic == 2_147_483_649
    found = read_node_config(b'{"NetworkMagic": 42}', {"--cardano-network-magic": "1"})
    assert (found.magic, found.cardano_magic) == (42, 1)


@pytest.mark.parametrize(
    ("file", "flags", "cause"),
    [
        (b'{"a": }', {}, r"not JSON, line 1, column 7 \(Expecting value\); correct it there, or name a dmq-node's"),
        (None, {"--dmq-network-magic": "4294967296"}, r"^--dmq-network-magic is no number below 2\^32; give"),
        (b"[]", {}, "no JSON object; name"),
        (b" " * ((1 << 20) + 1), {}, "longer than 1048576 bytes; name"),
        (b'{"NetworkMagic": true}', {}, r"NetworkMagic is no number below 2\^32; give"),
        (b'{"CardanoNetworkMagic": 4294967296}', {}, "CardanoNetworkMagic is no number below"),
        (b'{"LocalAddress": ""}', {}, "LocalAddress is no path; give"),
        (b'{"ShelleyGenesisFile": 7}', {}, "ShelleyGenesisFile is no path; give"),
        (b'{"TraceOptionMetricsPrefix": "a b"}', {}, "is no beginning of a metric's name; write"),
        (b'{"TraceOptions": {"": {"backends": ["PrometheusSimple 70000"]}}}', {}, "port 70000 .*; ports end at 65535"),
        (None, {"--dmq-network-magic": "x"}, "--dmq-network-magic 'x' is no number; give"),
        (None, {"--port": "99999"}, "^--port '99999' is no port; give a number up to 65535, or leave it out$"),
        (None, {"--port": "-1"}, "^--port '-1' is no port; give"),
        (None, {"--port": "\u0661"}, "^--port '\u0661' is no port; give"),
        (None, {"--host-addr": "300.1.1.1"}, "^--host-addr '300.1.1.1' is no IPv4 address; give one, or leave it out$"),
        (None, {"--host-addr": "::1"}, "^--host-addr '::1' is no IPv4 address; give"),
        (b'{"IPv4": 7}', {}, "^IPv4 '7' is no IPv4 address; give one, or leave it out$"),
        (b'{"PortNumber": "6161"}', {}, "^PortNumber 6161 is no port; give"),
        (b'{"PortNumber": 65536}', {}, "^PortNumber 65536 is no port; give"),
        (b'{"IPv6": "::1"}', {"--host-ipv6-addr": "1.2.3.4"}, "^--host-ipv6-addr '1.2.3.4' is no IPv6 address; give"),
        (None, {"--local-sockt": "x"}, "--local-sockt is no flag of dmq-node; known are --local-socket,"),
        (None, {"--dmq-network-magic": "42", "--min-sig-delay": "1m"}, "'1m' is no time; give seconds, as 0.01s"),
        (None, {"--min-sig-delay": "1s"}, "for test networks; leave it out on mainnet"),
        (
            b'{"NetworkMagic": 2147483650, "CardanoNetworkMagic": 1}',
            {},
            "^NetworkMagic 2147483650 is of preview, and CardanoNetworkMagic 1 is of preprod; give both of",
        ),
        (
            b'{"CardanoNetworkMagic": 2}',
            {"--dmq-network-magic": "2912307721"},
            "^--dmq-network-magic 2912307721 is of mainnet, and CardanoNetworkMagic 2 is of preview; give both",
        ),
    ],
)
def test_what_is_refused_with_cause_and_remedy(file: bytes | None, flags: dict[str, str], cause: str) -> None:
    with pytest.raises(BadNodeConfig, match=cause):
        read_node_config(file, flags)


def test_what_a_dmq_nodes_file_says_of_peers_is_honoured() -> None:
    given = {"DiffusionMode": "InitiatorOnly", "PeerSharing": False, "TargetNumberOfKnownPeers": 40,
             "TargetNumberOfEstablishedPeers": 10, "TargetNumberOfActivePeers": 5, "ChurnInterval": 600}  # fmt: skip
    found = read_node_config(json.dumps(given).encode(), {})
    assert [getattr(found, name) for name in OF_PEERS] == list(given.values()) and not found.not_honoured
    ledger = read_node_config(b'{"LedgerPeers": true, "TargetNumberOfRootPeers": 60}', {})
    assert ledger.not_honoured == (
        "LedgerPeers has no effect: relays of the ledger come from a file: set ledger_snapshot in router.toml.",
        "TargetNumberOfRootPeers has no effect: all roots of the topology are kept.",
    )


@pytest.mark.parametrize(
    "given",
    (
        {"DiffusionMode": "Both"},
        {"PeerSharing": 1},
        {"TargetNumberOfActivePeers": True},
        {"TargetNumberOfActivePeers": 201},
        {"ChurnInterval": "600"},
        {"ChurnInterval": 1},
    ),
)
def test_what_a_file_says_wrongly_of_peers_is_named_with_its_remedy(given: dict[str, object]) -> None:
    with pytest.raises(BadNodeConfig, match=rf"{next(iter(given))} is .*; (give|write) "):
        read_node_config(json.dumps(given).encode(), {})


def test_what_a_dmq_nodes_file_may_say_of_peers_the_settings_may_say_too() -> None:
    """The bounds are those of the settings."""
    for key, name in (("Known", "known_peers"), ("Established", "established_peers"), ("Active", "active_peers")):
        given = {name: TARGET_MAX[f"TargetNumberOf{key}Peers"]}
        msgspec.convert(given, Settings)
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({name: given[name] + 1}, Settings)
    for seconds in (CHURN_S_MIN, CHURN_S_MAX):
        msgspec.convert({"churn_s": seconds}, Settings)
