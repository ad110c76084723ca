"""The one configuration file, `router.toml`: every limit has its name, range and reason here.

A limit's default is that of the object which enforces it; it is written here only if that object is in a layer above
the settings.

Units stand at the end of names: `_s` seconds, `_bytes`, `_messages`, `_per_s`, `_percent`; `_max` and `_min` are
bounds. Each limit's description says what happens when it is reached. The sample file, `config show` and the errors are
all made from these definitions. Limits that the protocol itself fixes (a hello of 1 KiB, texts of 200 bytes, 16 seen
ids) are no settings and stand beside the protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from msgspec import Struct, field
from msgspec.structs import replace

from router.core.routing.limits import LOG_KEEP_BYTES, LOG_KEEP_S, REFUSED_PERCENT, REFUSED_STRANGERS_PERCENT
from router.core.wire.crypto import PublicKey
from router.core.wire.lifetime import EXPIRY_MIN, TTL_S
from router.disk import private_file
from router.disk.limits import LogLimits, StoreLimits
from router.settings import config_backup, config_peers, config_sample, config_services
from router.settings.config_backup import Backup
from router.settings.config_limits import CORE, LINK, LIVENESS, Limits
from router.settings.config_peers import Local, Name, Peer, PeerChange, Url, about, changed, read_address, write_address
from router.settings.config_services import NOBODY, Residents, ServiceEntry
from router.settings.config_text import (
    FLAGS,
    ConfigError,
    Door,
    Problem,
    Schema,
    Setting,
    located,
    names_in,
    parse,
    text_of,
    with_setting,
)
from router.settings.config_units import BYTES_MAX, COUNT_MAX, DAY_S, GIB, HOUR_S, KIB, MIB, span
from router.settings.durations import with_seconds

FILE_NAME = "router.toml"
OWNER_URL = "unix:router.sock"
STORE, LOG = StoreLimits(), LogLimits()

Role = Literal["edge", "core"]
Accept = Literal["known", "anyone"]
Durability = Literal["synced", "unsynced"]
Outcomes = Literal["names", "counts"]


# fmt: off
class Node(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The node's role and name, and the connections and services that it allows."""

    role: Annotated[Role, about(
        "An edge node serves the apps of its owner; a core node serves other nodes as well.")] = "edge"
    name: Annotated[Name, about("The name that neighbours may give this node.")] = ""
    listen: Annotated[tuple[Url, ...], about(
        "The URLs to listen on, besides the owner's socket (unix:router.sock in the home), which is always there. "
        "Empty: none on an edge node, tls://127.0.0.1:4100 on a core node.")] = ()
    advertise: Annotated[tuple[Url, ...], about(
        "The URLs at which others reach this node, for its link: tls://node.example.org:4100. Empty: those of listen "
        "that name a host.")] = ()
    accept: Annotated[Literal["", "known", "anyone"], about(
        'Whether strangers may connect. Empty: "known" on an edge node, "anyone" on a core node.')] = ""
    join_open: Annotated[bool, about(
        "Whether everybody who may connect may also join groups here, not only local apps and clients.")] = False
    services: Annotated[tuple[ServiceEntry, ...], about(
        "The services to run, by module: services.echo. Write a [[node.services]] block with name, module and run to "
        'give one another name, or to choose where it runs: "inside", "apart" or "by-hand".')] = ()
    services_public: Annotated[tuple[Name, ...], about(
        "The services, by name (echo), that strangers may send to.")] = ()
    service_restart_s_min: Annotated[float, span(0.01, HOUR_S,
        "The wait before a service that failed is started again; it doubles with each further failure.")] = 0.5
    service_restart_s_max: Annotated[float, span(0.01, HOUR_S,
        "The longest wait before a service that failed is started again.")] = 60.0
    service_attempts_max: Annotated[int, span(1, 1_000_000,
        "How often a service may fail on one message; then the message is refused with reason peer-refused, and the "
        "next one comes.")] = 5


class Queues(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Bounds of messages waiting for absent or slow recipients; beyond them a message is refused `queue-full-…`."""

    recipient_messages_max: Annotated[int, span(1, COUNT_MAX,
        "The most messages waiting for one recipient.")] = CORE.queues.recipient_messages_max
    recipient_bytes_max: Annotated[int, span(4 * KIB, BYTES_MAX,
        "The most bytes waiting for one recipient.")] = CORE.queues.recipient_bytes_max
    group_messages_max: Annotated[int, span(1, COUNT_MAX,
        "The most messages of one group or source that wait, counted once for each recipient.",
        )] = CORE.queues.group_messages_max
    group_bytes_max: Annotated[int, span(4 * KIB, BYTES_MAX,
        "The most bytes of one group or source that wait, counted once for each recipient.",
        )] = CORE.queues.group_bytes_max
    neighbour_messages_max: Annotated[int, span(1, COUNT_MAX,
        "The most messages brought by one neighbour that wait, counted once for each recipient.",
        )] = CORE.queues.neighbour_messages_max
    neighbour_bytes_max: Annotated[int, span(4 * KIB, BYTES_MAX,
        "The most bytes brought by one neighbour that wait, counted once for each recipient.",
        )] = CORE.queues.neighbour_bytes_max
    node_messages_max: Annotated[int, span(1, COUNT_MAX,
        "The most messages waiting on this node.")] = CORE.queues.node_messages_max
    node_bytes_max: Annotated[int, span(4 * KIB, BYTES_MAX, "The most bytes waiting on this node.",
        )] = CORE.queues.node_bytes_max
    share_percent: Annotated[int, span(1, 100,
        "Share of a recipient's queue that one source, group or neighbour may fill; a single message may exceed it.",
        )] = CORE.queues.share_percent
    strangers_percent: Annotated[int, span(0, 100,
        "Share of node_messages_max and node_bytes_max that all strangers together may fill.",
        )] = CORE.queues.strangers_percent
    neighbour_node_percent: Annotated[int, span(1, 100,
        "Share of node_messages_max and node_bytes_max that one client or peer may fill; beyond it, messages are "
        "refused with reason queue-full-node. Where there are several, it is the share of what the others leave free.",
        )] = CORE.queues.neighbour_node_percent
    met_percent: Annotated[int, span(1, 100,
        "Share of one recipient's queue, and of the node's, that one router may fill with which services of this node "
        "have agreed on groups.")] = CORE.queues.met_percent
    keep_s: Annotated[int, span(0, 366 * DAY_S,
        "How long settled messages are kept for PULL and --since; 0: not at all.")] = STORE.keep_s
    keep_bytes_max: Annotated[int, span(0, BYTES_MAX,
        "The most bytes of settled messages that are kept for PULL and --since; the oldest go first.",
        )] = STORE.keep_bytes_max
    history_s: Annotated[int, span(0, 366 * DAY_S,
        "How long messages of groups are kept in which the pub/sub service takes part, until they expire at the "
        "latest; 0: only as long as keep_s says.")] = STORE.history_s
    history_bytes_max: Annotated[int, span(0, BYTES_MAX,
        "The most bytes of messages of such groups that are kept; the oldest go first.",
        )] = STORE.history_bytes_max
    away_s_max: Annotated[int, span(60, 3660 * DAY_S,
        "How long a subscriber may be away. After that it loses its subscriptions, and what waits for it is dropped "
        "with reason left.")] = CORE.away_s_max
    lan_keep_s: Annotated[int, span(60, 3660 * DAY_S,
        "How long a LAN neighbour may be away. After that what was agreed with it ends, and what waits for it is "
        "dropped with reason left.")] = CORE.lan_keep_s


class Store(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The database under `store/` in the home."""

    durability: Annotated[Durability, about(
        'Whether a message is settled only once it is safe on disk. "unsynced" survives a killed process but '
        "not a power cut.")] = "synced" if STORE.synced else "unsynced"
    map_bytes_initial: Annotated[int, span(MIB, BYTES_MAX,
        "The size of a new database; it grows as needed.")] = STORE.map_bytes_initial
    map_bytes_max: Annotated[int, span(0, BYTES_MAX,
        "The largest size of the database. Messages may fill three quarters of it, or all but 256 MiB; after that they "
        "are refused with reason disk-full. The rest is reserved for settling and for events. 0: as large as the disk "
        "allows.")] = STORE.map_bytes_max
    disk_free_bytes_min: Annotated[int, span(0, BYTES_MAX,
        "The disk space to leave free. With less, messages are refused with reason disk-full; the rest is reserved for "
        "settling.")] = 256 * MIB
    commit_messages_max: Annotated[int, span(1, 1_000_000,
        "The most messages written in one commit; more wait for the next.")] = 4096
    commit_bytes_max: Annotated[int, span(4 * KIB, GIB,
        "The most bytes written in one commit; more wait for the next.")] = 16 * MIB


class Log(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The event log under `log/` in the home, which records the fate of every message."""

    segment_bytes: Annotated[int, span(64 * KIB, 4 * GIB, "The size at which a segment of the log is closed.",
        )] = LOG.segment_bytes
    segment_s: Annotated[int, span(1, 7 * DAY_S, "The age at which a segment of the log is closed.")] = LOG.segment_s
    compress_after_s: Annotated[int, span(0, 3660 * DAY_S,
        "The age of its newest event at which a segment is compressed, to about a tenth: events-….jsonl becomes "
        "events-….jsonl.zst. 0: never, so that a segment, once it has its name, never changes for whoever copies or "
        "searches the log.",
        )] = LOG.compress_after_s
    keep_s: Annotated[int, span(0, 3660 * DAY_S,
        "How long segments are kept; older ones are pruned, and their signed footers stay. 0: 7 days on an edge node, "
        "30 days on a core node.",
        )] = 0
    keep_bytes: Annotated[int, span(0, BYTES_MAX,
        "The most bytes of segments; beyond it the oldest are pruned. Their indexes take a tenth more. 0: 64 MiB on an "
        "edge node, 10 GiB on a core node.")] = 0
    refused_percent: Annotated[int, span(1, 50,
        "Share of keep_bytes that may be used within keep_s to log messages refused to apps and known neighbours; "
        "beyond it they are counted by the minute, without ids.")] = REFUSED_PERCENT
    strangers_percent: Annotated[int, span(1, 50,
        "Share of keep_bytes that may be used within keep_s to log what strangers do: refused messages, connections, "
        "joins and leaves. Beyond it they are counted by the minute, without ids.",
        )] = REFUSED_STRANGERS_PERCENT
    refused_ids_per_s: Annotated[int, span(0, 100_000,
        "The most ids of refused messages logged in a second for one neighbour; all strangers together have an eighth "
        "of that.",
        )] = CORE.rejections.ids_max
    outcomes: Annotated[Outcomes, about(
        "Whether a local publisher that asks for outcomes gets the recipients' names or only counts.",
        )] = "names" if CORE.outcomes.named else "counts"


class Verify(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Checking signatures, the most of the work."""

    verifiers: Annotated[int, span(-1, 1024,
        "The most processes that check signatures, of which each starts when there is work for it, and ends after a "
        "minute without any. 0: the router itself checks them; -1: one process per core, "
        "none on a single core.",
        )] = -1


class Link(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Connections to neighbours."""

    ping_s: Annotated[float, span(1, DAY_S,
        "The time between pings on a quiet link. It is given up after three times as long.")] = LIVENESS.ping_s
    owed_ping_s: Annotated[float, span(1, DAY_S,
        "The time until a quiet link is pinged while something sent on it is not settled.")] = LIVENESS.owed_ping_s
    unacked_s: Annotated[float, span(1, DAY_S,
        "How long the other machine may acknowledge nothing of what the system sends it again and again; then the link "
        "is given up. Half of it is enough after this machine's network has changed. On Linux only.",
        )] = LIVENESS.unacked_s
    idle_close_s: Annotated[float, span(1, 7 * DAY_S,
        "How long a link to a peer stays open without messages. Links to apps, clients and uplinks are not closed for "
        "that.")] = 300.0
    dials_max: Annotated[int, span(1, 100_000,
        "The most connections being dialled at once; more wait. Half of them may be to addresses that only "
        "advertisements, hints or datagrams name.")] = 64
    dial_timeout_s: Annotated[float, span(0.1, 600,
        "How long dialling may take; then it fails with reason connect-timeout.")] = 10.0
    dial_backoff_s_min: Annotated[float, span(0.01, DAY_S,
        "The first wait before dialling again; it doubles with each further failure.")] = 0.5
    dial_backoff_s_max: Annotated[float, span(0.01, DAY_S, "The longest wait before dialling again.")] = 60.0
    retry_backoff_s_min: Annotated[float, span(0.01, DAY_S,
        "The first wait before a message that was refused for now is sent again; it doubles with each further refusal.",
        )] = CORE.delivery.retry_s_min
    retry_backoff_s_max: Annotated[float, span(0.01, DAY_S,
        "The longest wait before a message that was refused for now is sent again.")] = CORE.delivery.retry_s_max
    goodbye_s: Annotated[float, span(0, 600, "How long settling may go on after a goodbye.",
        )] = LINK.goodbye_s


class Defaults(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Values for commands and apps that name no others."""

    ttl_s: Annotated[int, span(0, 366 * DAY_S, "How long each router keeps a message for a recipient that is away.",
        )] = TTL_S
    expiry_min: Annotated[int, span(1, 366 * 1440, "Minutes until a message expires everywhere.")] = EXPIRY_MIN


class Config(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All of `router.toml`. `load` returns it with the values that depend on the role filled in."""

    node: Node = field(default_factory=Node)
    limits: Limits = field(default_factory=Limits)
    queues: Queues = field(default_factory=Queues)
    store: Store = field(default_factory=Store)
    log: Log = field(default_factory=Log)
    verify: Verify = field(default_factory=Verify)
    link: Link = field(default_factory=Link)
    backup: Backup = field(default_factory=Backup)
    defaults: Defaults = field(default_factory=Defaults)
    services: Annotated[dict[str, dict[str, Any]], about(
        "The settings of a service, by its name: [services.echo].")] = field(default_factory=dict)
    local: tuple[Local, ...] = ()
    peers: tuple[Peer, ...] = ()
# fmt: on


Rule = Callable[[Config], Iterator[Problem]]


_LISTEN: Mapping[Role, tuple[str, ...]] = {"edge": (), "core": ("tls://127.0.0.1:4100",)}
_ACCEPT: Mapping[Role, Accept] = {"edge": "known", "core": "anyone"}
_LOG_KEEP_S: Mapping[Role, int] = {"edge": LOG_KEEP_S, "core": 30 * DAY_S}
_LOG_KEEP_BYTES: Mapping[Role, int] = {"edge": LOG_KEEP_BYTES, "core": 10 * GIB}

_DOORS: Mapping[type, Door] = {PublicKey: Door("an address", read_address, write_address)}
_SCHEMA = Schema(Config, _DOORS)

_SAMPLE_HEAD = """\
# The configuration of this node. What stands behind a # is the default; remove the # to change it.
# `router config check` finds mistakes, `router config show` prints what is in force and where it came from.
# Names with _s are in seconds; such a time may also be text with a unit: "90m", "12h", "5d".

"""


def load(
    path: Path, overrides: Mapping[str, object] | None = None, rules: tuple[Rule, ...] = ()
) -> tuple[Config, dict[str, str]]:
    """Return the configuration in force, and the origin of each setting by name: "default", "router.toml" or "flag".

    `overrides` are settings by name ("node.listen") from the command line; None is a flag that was not given.
    `rules` find further problems in a well-formed configuration. A missing file means defaults. Raise `ConfigError`
    with every problem found.
    """
    flags = {name: value for name, value in (overrides or {}).items() if value is not None}
    text = text_of(path)
    config, given = _judged(text, path.name, flags, rules)
    origins = {**dict.fromkeys(given, path.name), **dict.fromkeys(flags, "flag")}
    return config, {one.name: one.origin for one in _SCHEMA.settings(config, origins)}


def check(path: Path, rules: tuple[Rule, ...] = ()) -> list[str]:
    """Return every problem of the file, as sentences with their lines; empty if it can be used."""
    try:
        load(path, rules=rules)
    except ConfigError as error:
        return list(error.problems)
    return []


def no_file(path: Path) -> str:
    """Return what holds where there is no configuration file."""
    return (
        f"there is no {path}: every setting has its default (`router config show`), so the node is an edge without "
        "neighbours and uplinks; `router init` writes one"
    )


def show(config: Config, origins: Mapping[str, str]) -> list[Setting]:
    """Return one row for each setting: name, value in force, origin, sentence."""
    return list(_SCHEMA.settings(config, origins))


def sample(
    role: Role = "edge",
    listen: tuple[str, ...] = (),
    residents: Residents = NOBODY,
    advertise: tuple[str, ...] = (),
    name: str = "",
) -> str:
    """Return the text of `router.toml` for a new home: the given settings, and all others as comments with their
    defaults."""
    given = {"node.name": name, "node.listen": listen, "node.advertise": advertise}
    live: dict[str, object] = {"node.role": role} | {key: said for key, said in given.items() if said}
    if residents:
        live |= {
            "node.services": tuple(f"services.{name}" for name in residents),
            "node.services_public": tuple(name for name, one in residents.items() if one.is_public),
        }
    services = [
        config_sample.options(name, kind, residents[name].settings if name in residents else None)
        for name, kind in config_services.settings()
    ]
    return "\n".join((_SAMPLE_HEAD + config_sample.sample(Config, live), *services))


def edit_peers(path: Path, change: PeerChange) -> None:
    """Change the `[[peers]]` blocks in the file and nothing else; see `rewrite`."""
    rewrite(path, lambda text, _: changed(text, change))


def edit_backup(path: Path, values: Mapping[str, object]) -> None:
    """Replace the section `[backup]` in the file and nothing else; see `rewrite`."""
    rewrite(path, lambda text, _: config_backup.with_section(text, values))


def rewrite(path: Path, write: Callable[[str, Config], str]) -> None:
    """Replace the file's text by the result of `write(text, value)`, while nobody else changes it.

    The file is replaced whole, and only if it was and stays valid; otherwise raise `ConfigError` and change nothing.
    """
    try:
        with private_file.alone(path.parent):
            text = text_of(path)
            new = write(text, _judged(text, path.name, {})[0])
            if new != text:
                _judged(new, path.name, {})
                private_file.replace(path, new.encode())
    except OSError as error:
        said = f"{path} cannot be changed: {error.strerror}; see that it and its directory may be written"
        raise ConfigError((said,)) from None


def with_service(config: Config, module: str, option: str, value: object) -> Config:
    """Return the configuration with one setting of a service changed; a service that it does not run yet is added, open
    to strangers."""
    found = {one.module: one.name for one in config_services.instances(config.node.services)}
    name = found.get(module, config_services.service_name(module))
    services = {**config.services, name: {**config.services.get(name, {}), option: value}}
    if module in found:
        return replace(config, services=services)
    more = {"services": (*config.node.services, module), "services_public": (*config.node.services_public, name)}
    return replace(config, services=services, node=replace(config.node, **more))


def by_role(config: Config) -> Config:
    """Return the configuration with the values that depend on the role filled in, and the owner's socket listed
    first."""
    node, log, role = config.node, config.log, config.node.role
    listen = node.listen or _LISTEN[role]
    owner = () if OWNER_URL in listen else (OWNER_URL,)
    keep_s, keep_bytes = log.keep_s or _LOG_KEEP_S[role], log.keep_bytes or _LOG_KEEP_BYTES[role]
    return replace(
        config,
        node=replace(node, listen=(*owner, *listen), accept=node.accept or _ACCEPT[role]),
        log=replace(log, keep_s=keep_s, keep_bytes=keep_bytes),
    )


def _judged(text: str, file: str, flags: Mapping[str, object], more: tuple[Rule, ...] = ()) -> tuple[Config, set[str]]:
    """Return the configuration made of file text and flags, and the names of the settings in the text; raise
    `ConfigError` with every problem."""
    raw = cast(dict[str, Any], with_seconds(parse(text, file)))
    flags = {name: with_seconds(value, name.rpartition(".")[2]) for name, value in flags.items()}
    given = set(names_in(raw))
    problems = located(_SCHEMA.problems(raw), text, file)
    for name, value in flags.items():
        problems += tuple(f"{FLAGS}: {one.text}" for one in _SCHEMA.problems(with_setting({}, name, value)))
    if problems:
        raise ConfigError(problems)
    for name, value in flags.items():
        with_setting(raw, name, value)
    config = _SCHEMA.value(raw)
    if broken := located([one for rule in (*_RULES, *more) for one in rule(config)], text, file, flags):
        raise ConfigError(broken)
    return by_role(config), given


def _sizes_fit(config: Config) -> Iterator[Problem]:
    """Yield a problem for each pair of bounds that contradict each other."""
    most, first = config.store.map_bytes_max, config.store.map_bytes_initial
    if most and most < first:
        text = f"store.map_bytes_max is {most:_}; it must be 0 or at least map_bytes_initial ({first:_})"
        yield Problem(("store", "map_bytes_max"), text)
    expiry, lifetime = config.defaults.expiry_min, config.limits.lifetime_s_max
    if expiry * 60 > lifetime:
        wanted = f"it must be at most {lifetime // 60}, because limits.lifetime_s_max is {lifetime:_}"
        text = f"defaults.expiry_min is {expiry}; {wanted}"
        yield Problem(("defaults", "expiry_min"), text)


_RULES: tuple[Rule, ...] = (
    _SCHEMA.out_of_order,
    lambda config: config_services.broken_rules(config.node.services, config.node.services_public, config.services),
    _sizes_fit,
    lambda config: config_backup.broken_rules(config.backup),
    lambda config: config_peers.broken_rules(config.local, config.peers),
)
