"""The settings of a DMQ node: in the sample, judged by `config check`, shown by `config show`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from router.service.settings import Struct, about, door, span

from .core.mempool import MempoolLimits
from .core.networks import consumers_of, network_of
from .core.peers.hot_places import Targets
from .core.peers.peers import address_of
from .core.peers.topology import SRV_SERVICE

_POOL, _TARGETS = MempoolLimits(), Targets()
CONSUMERS_MAX = 16
_CONSUMER = "aggregator=unix:/dmq/ipc/aggregator.socket?mode=660&group=cardano"
Consumer = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,31}=unix:[^\s?]+(?:\?[^\s?]+)?\Z",
        extra={"form": f"NAME=unix:PATH, as {_CONSUMER}, where NAME has letters, digits, - and _, 32 at most"},
    ),
]

SrvService = Annotated[
    str,
    Meta(
        pattern=r"^_[A-Za-z0-9_-]{1,62}(?:\._[A-Za-z0-9_-]{1,62}){1,7}\Z",
        extra={"form": f"a service's name in DNS, each word of which begins with _, as {SRV_SERVICE}"},
    ),
]


class Settings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A DMQ node (CIP-137) for the signers and aggregators of this machine."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield the settings that a form cannot check, each with its fault."""
        try:
            if network_of(self.network).chain is None and not self.genesis:
                said = (
                    "genesis: the network is given by its magic, so its times are not known; name its Shelley genesis"
                )
                yield "genesis", said
        except ValueError as error:
            yield "network", str(error)
        try:
            named = consumers_of(self.consumers)
        except ValueError as error:
            yield "consumers", str(error)
        else:
            ours = self.local_socket.partition("?")[0]
            for name, url in named.items():
                if url.partition("?")[0] == ours:
                    yield "consumers", f"consumers: the socket of {name} is local_socket; a consumer has one of its own"
        if len(self.consumers) > CONSUMERS_MAX:
            yield "consumers", f"{len(self.consumers)} consumers are named; at most {CONSUMERS_MAX} are served"
        yield from self._problems_with_peers()
        if self.stake_file and self.stake_command:
            yield "stake_command", "both a stake file and a stake command are given; keep one"

    def _problems_with_peers(self) -> Iterator[tuple[str, str]]:
        for peer in self.version_1_peers:
            if address_of(peer) is None:
                yield "version_1_peers", f'version_1_peers names "{peer[:60]}"; write IP:PORT, since names change'
        if self.group and not self.revision.startswith("dmq-"):
            said = f"{self.revision} is not carried by a group, as its messages change on their way"
            yield "revision", f"revision: {said}; leave out group, or revision"

    def at_start(self, home: Path) -> Iterator[tuple[str, str]]:
        """Yield what `router serve` prints of the node: its network, its sockets, and where its stake comes from."""
        yield "network", f"{self.network} (magic {network_of(self.network).magic})"
        yield "socket", _place(self.local_socket, home)
        for name, url in consumers_of(self.consumers).items():
            yield f"consumer {name}", _place(url, home)
        if self.diffusion_mode != "InitiatorOnly":
            yield from (("nodes", url) for url in (self.listen, self.listen_ipv6) if url)
        if self.topology_file:
            yield "topology", self.topology_file
        if self.group:
            yield "group", self.group
        if self.metrics:
            yield "metrics", f"{self.metrics}/metrics"
        yield "stake", self.stake_file or " ".join(self.stake_command) or "from nowhere: every message is rejected"

    def warnings(self, name: str, *, is_public: bool, has_neighbours: bool) -> Iterator[str]:
        """Yield warnings about settings that are valid but probably not intended."""
        if not self.stake_file and not self.stake_command:
            said = f"services.{name} has neither stake_file nor stake_command: every message is refused, as no pool is "
            yield f"{said}known; give the output of cardano-cli query stake-snapshot --all-stake-pools"
        if self.diffusion_mode == "InitiatorOnly" and not self.group:
            said = f"services.{name}.diffusion_mode is InitiatorOnly: no node fetches from this one, so what clients "
            yield f"{said}hand in reaches no other; leave it out where a signer hands in messages"

    network: Annotated[str, about("The network: mainnet, preprod, preview, or the DMQ network magic of another.")] = (
        "mainnet"
    )
    revision: Annotated[
        Literal["dmq-0.5", "dmq-0.4", "cip-29ffe0e", "overview-2025-04"],
        about('What clients and other nodes speak: "dmq-0.5" is what is deployed. The wire does not say which it is.'),
    ] = "dmq-0.5"
    local_socket: Annotated[
        str,
        door(
            "The socket of signers and of consumers without a name: unix:PATH?mode=660&group=NAME.",
            ["unix"],
            may_be_empty=False,
        ),
    ] = "unix:dmq-node.socket"
    listen: Annotated[
        str,
        door("Where other nodes connect, and from where they are dialled: tcp://HOST:PORT. Empty: nowhere.", ["tcp"]),
    ] = ""
    listen_ipv6: Annotated[str, door("As listen, besides, for IPv6: tcp://[HOST]:PORT.", ["tcp"])] = ""
    topology_file: Annotated[
        str,
        about("The other nodes, as in the topology of a dmq-node; read again when it changes. Empty: none are named."),
    ] = ""
    ledger_snapshot: Annotated[
        str,
        about(
            "The output of cardano-cli query ledger-peer-snapshot, whose relays are dialled as well. Empty: the ledger "
            "is not asked."
        ),
    ] = ""
    srv_services: Annotated[
        tuple[SrvService, ...],
        about(
            "Under which services names without a port are looked up in DNS (SRV), the first that answers; add "
            '"_mithril._tcp" for those who followed mithril\'s guide. Empty: such names are not looked up.'
        ),
    ] = (SRV_SERVICE,)
    group: Annotated[
        str,
        Meta(
            pattern=r"^(?:[A-Za-z0-9_][A-Za-z0-9._-]{0,63})?\Z",
            extra={"form": "a group's name as `router group list` shows it, as dmq-preview, or empty"},
        ),
        about(
            "The group of this home that carries the topic over routers, as dmq-preview: who may send in it publishes "
            "what it has accepted there, and everybody hears it. Empty: none."
        ),
    ] = ""
    diffusion_mode: Annotated[
        Literal["InitiatorAndResponder", "InitiatorOnly"],
        about('Whether nodes may connect, and dialled ones fetch; "InitiatorOnly": they are only dialled and asked.'),
    ] = "InitiatorAndResponder"
    peer_sharing: Annotated[bool, about("Whether nodes are asked for the addresses of others, and told some.")] = True
    version_1_peers: Annotated[
        tuple[str, ...],
        about(
            "Nodes, as IP:PORT, to which version 1 alone is offered: a dmq-node that does not name this node then "
            "hears it at once, and not after 15 minutes."
        ),
    ] = ()
    known_peers: Annotated[int, span(0, 1000, "Nodes whose addresses are kept, at most.")] = _TARGETS.known
    established_peers: Annotated[int, span(0, 400, "Nodes that this one connects to, besides the local roots.")] = (
        _TARGETS.established
    )
    active_peers: Annotated[int, span(0, 200, "Nodes from which messages are fetched.")] = _TARGETS.active
    churn_s: Annotated[float, span(10.0, 86_400.0, "Seconds after which some of these nodes give way to others.")] = (
        _TARGETS.churn_s
    )
    consumers: Annotated[
        tuple[Consumer, ...],
        about(
            f"Durable consumers, each with a name and a socket of its own, as {_CONSUMER}; where one stopped reading "
            "it goes on."
        ),
    ] = ()
    metrics: Annotated[
        str,
        door(
            "Where Prometheus reads metrics over HTTP: tcp://127.0.0.1:12000. Empty: nowhere.", ["tcp", "tls", "unix"]
        ),
    ] = ""
    metrics_prefix: Annotated[
        str,
        Meta(
            pattern=r"^[a-zA-Z_][a-zA-Z0-9_]{0,31}\Z",
            extra={"form": "a word of letters, digits and _, 32 at most, with no digit in front, as dmq_node_"},
        ),
        about("How the names of the metrics begin."),
    ] = "dmq_node_"
    metrics_suffix: Annotated[
        bool, about("Whether the names that dmq-node has, too, end in _counter, as its tracing library writes them.")
    ] = True
    stake_file: Annotated[
        str, about("The output of cardano-cli query stake-snapshot --all-stake-pools; read again when it changes.")
    ] = ""
    stake_command: Annotated[
        tuple[str, ...], about("The command that prints it, with its arguments; run at the start and in each epoch.")
    ] = ()
    genesis: Annotated[str, about("The network's Shelley genesis. Empty: the constants of the public network.")] = ""
    rate: Annotated[
        Literal["pace", "reject"],
        about(
            'What becomes of a pool\'s second message within the pause: "pace" takes it, and keeps it back from peers '
            'until they would take it; "reject" refuses it, as the reference does.'
        ),
    ] = "pace"
    pause_s: Annotated[
        float, span(0.0, 3600.0, "How far apart two messages of one pool are for other nodes; 0: not at all.")
    ] = _POOL.pause_s
    clients_max: Annotated[
        int, span(2, 200, "Clients at local_socket; half as many more may be without a handshake.")
    ] = 64
    consumer_clients_max: Annotated[
        int, span(2, 16, "Clients at each consumer's socket besides; half as many more may be without a handshake.")
    ] = 4
    messages_max: Annotated[int, span(1, 1_000_000, "Live messages at most; one more is refused dmq:mempool-full.")] = (
        _POOL.messages_max
    )
    bytes_max: Annotated[int, span(4096, 1 << 34, "Bytes of live messages at most.")] = _POOL.bytes_max
    pool_messages_max: Annotated[
        int, span(1, 1_000_000, "Live messages of one pool at most; one more is refused dmq:pool-full.")
    ] = _POOL.pool_messages_max
    pool_bytes_max: Annotated[int, span(4096, 1 << 34, "Bytes of live messages of one pool at most.")] = (
        _POOL.pool_bytes_max
    )


def _place(url: str, home: Path) -> str:
    """Return the path of a Unix socket; any other URL as it is."""
    return str(home / url.removeprefix("unix:").partition("?")[0]) if url.startswith("unix:") else url or "none"
