"""The settings of a CAPD pool: in the sample, judged by `config check`, shown by `config show`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Meta

from router.core.wire.address import is_host, leads_back
from router.core.wire.text import BadText, parse_key
from router.service.settings import Struct, about, span

from .core.limits import PoolLimits

_POOL = PoolLimits()
POOL_BYTES_MAX = 1 << 34
CONNECT_MAX = PEERS_MAX = 16
_PORT = r"(?:6553[0-5]|655[0-2]\d|65[0-4]\d\d|6[0-4]\d{3}|[1-5]\d{4}|[1-9]\d{0,3})"
PLACE = rf"(?:\[[0-9a-fA-F:.]+\]|[^\s/:\[\]]+):{_PORT}"


class Settings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A pool of messages that are paid for by work (CAPD)."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each setting with a fault that its form cannot show, and the fault."""
        if len(self.connect) > CONNECT_MAX:
            yield "connect", f"{len(self.connect)} neighbours are named; at most {CONNECT_MAX} are dialled"
        if len(set(self.connect)) < len(self.connect):
            yield "connect", "a neighbour is named twice; name each once"
        yield from self._place_problems()
        yield from (("peers", text) for text in self._peer_problems())

    def _place_problems(self) -> Iterator[tuple[str, str]]:
        own = [("listen", self.listen)] if self.listen else []
        for name, place in (*own, *(("connect", one) for one in self.connect)):
            host, port = _host_port(place)
            if not is_host(host):
                yield name, f"{host} in {place} is neither an IP address nor a name that DNS knows; mend it"
            elif own and name == "connect":
                here, at = _host_port(self.listen)
                if port == at and leads_back(host, here):
                    yield name, f"{place} is where this pool listens itself; take it out"

    def _peer_problems(self) -> Iterator[str]:
        if len(self.peers) > PEERS_MAX:
            yield f"{len(self.peers)} pools are named; at most {PEERS_MAX} are peers"
        if len(set(self.peers)) < len(self.peers):
            yield "a pool is named twice; name each once"
        for text in self.peers:
            try:
                parse_key(text, "addr")
            except BadText as error:
                yield f"{str(error).rstrip('.')}; `router capd address` on the other node prints a pool's address"

    def own_problems(self, own: bytes | None, router: bytes | None) -> Iterator[tuple[str, str]]:
        """Yield the settings that name this pool itself, or its router, each with the fault. `own`, `router`: None
        without an address."""
        for text in self.peers:
            address = parse_key(text, "addr")
            if address == own:
                yield "peers", f"{text} is the address of this pool itself; take it out, and name pools of other nodes"
            elif address == router:
                said = f"{text} is the address of this node's router, and peers are pools of other nodes"
                yield "peers", f"{said}; `router capd address` on the other node prints one"

    def warnings(self, name: str, *, is_public: bool, has_neighbours: bool) -> Iterator[str]:
        """Yield warnings about settings with which a pool runs, but hardly as intended. Messages that neighbours bring
        reach the pool in any case."""
        if self.profile == "compat" and self.data_bytes_max != _POOL.data_bytes_max:
            yield f'services.{name}.data_bytes_max has no effect under the profile "compat", which has no such limit'
        if self.peers and not is_public and not has_neighbours:
            said = f'services.{name}.peers names pools, but node.services_public does not name "{name}", and this node '
            remedy = f'add "{name}" to node.services_public, or their nodes by `router peer add`'
            yield f"{said}has no neighbours: they cannot send to it; {remedy}"

    network: Annotated[
        Literal["nexa", "testnet", "stormtest", "regtest"],
        about("The network whose nodes are neighbours, in `listen` and `connect`."),
    ] = "nexa"
    listen: Annotated[
        str,
        Meta(pattern=rf"^(?:|{PLACE})\Z", extra={"form": "HOST:PORT, as 127.0.0.1:7228, or empty"}),
        about("Where Nexa nodes and other pools may connect. Empty: nowhere."),
    ] = ""
    connect: Annotated[
        tuple[Annotated[str, Meta(pattern=rf"^{PLACE}\Z", extra={"form": "HOST:PORT, as 192.0.2.7:7228"})], ...],
        about("Nexa nodes and other pools to connect to; one that is away is dialled again, at most every 5 minutes."),
    ] = ()
    fetch: Annotated[
        bool,
        about("Whether a Nexa node that connects is asked for all that it holds: 65,536 questions, in some 44 s."),
    ] = False
    peers: Annotated[
        tuple[str, ...],
        about(
            "Pools of other nodes of ours, as addr1… text, which reconcile with this one over routers; each names the "
            "other."
        ),
    ] = ()
    profile: Annotated[
        Literal["strict", "compat"],
        about(
            'How the pool takes and loses messages: "compat" as a Nexa node does, with its faults; "strict" ranks by '
            "current priority, honours expiration, and has a size limit."
        ),
    ] = "strict"
    pool_bytes: Annotated[
        int, span(4096, POOL_BYTES_MAX, "Bytes of the pool at most; a message counts with 128 and its data.")
    ] = _POOL.bytes_max
    data_bytes_max: Annotated[
        int, span(128, 900_000, "Bytes of data in one message at most, and never more than an eighth of the pool.")
    ] = _POOL.data_bytes_max
    solve_cpu_percent: Annotated[
        float,
        span(
            0.0,
            100.0,
            "How much of a core the node spends, for those who post over HTTP, on the work of their messages; 0: none.",
        ),
    ] = 0.0


def _host_port(place: str) -> tuple[str, str]:
    host, _, port = place.rpartition(":")
    return host.strip("[]"), port
