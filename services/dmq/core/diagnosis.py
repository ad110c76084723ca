"""Findings that an operator should get about a DMQ node before its signers notice: facts in, findings with remedies
out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

from msgspec import Struct

from router.core.wire.codec import Malformed
from router.core.wire.text import age_text, counted, span_text
from services.dmq import reasons

from .messages.signed_message import SignedMessage
from .peers.ledger import counts_of
from .peers.peers import SAID_NO
from .protocols.revision import Revision
from .stake.chain_time import ChainTime
from .stake.distribution import AHEAD_S, SET_CLOCK, BadStake, StakeSet, read_stake

FILE_KIND, SOCKET, RIGHTS, OTHERS_WRITE = 0o170000, 0o140000, 0o7777, 0o002
"""Parts of a file's mode (POSIX)."""
ENDING_PERIODS = 4
"""Number of KES periods before its end from which a certificate counts as ending soon; on mainnet, six days."""
LAG_MAX = 1000
"""Number of messages behind which a consumer counts as lagging."""
NAMED_MAX = 5
CLOCK_PERIODS = 1
"""Number of KES periods by which a signer's clock and chain may differ from this node's."""
LATE_MIN = 2
"""Number of messages of other nodes that may come late, or early, without a doubt in the clock."""
_BY_THE_CLOCK = (reasons.EXPIRED.word, reasons.EXPIRY_TOO_FAR.word)
"""Why messages are refused where the clocks of nodes differ."""
_ASK = "run cardano-cli query stake-snapshot --all-stake-pools anew, or name it as stake_command"

_NOT_ASKED = "not checked: the node could not be asked for its messages"
_SOCKET_FIRST = "see to the socket first"


class Finding(NamedTuple):
    """The result of a check. `ok` is None if it could not be made; `remedy` is empty if nothing needs to be done."""

    check: str
    ok: bool | None
    found: str
    remedy: str = ""


class Facts(Struct, frozen=True):
    """The facts for the checks. `mode`: the socket file's, None if there is none; `silence`: why the node could not be
    asked; `refusal`: its answer to the handshake; `network`: that of which it was asked as a client; `status`, `clock`:
    answers of the home's node, None if none runs; `away`: why the service does not run if its node does;
    `start`: the command that starts the home's node, "" if the home has none; `fullness`: its answer if it has no place
    for a client; `problems`: the mistakes in the home's configuration; `crowd_from`, `places`: the number of
    connections at a door for nodes from which on those of a crowd wait, and the most that it takes."""

    socket: str
    mode: int | None
    silence: str = ""
    refusal: str = ""
    messages: tuple[bytes, ...] = ()
    status: Mapping[str, Any] | None = None
    clock: Mapping[str, Any] | None = None
    stake_file: bytes | None = None
    stake_at_s: float = 0.0
    network: str = "mainnet"
    away: str = ""
    start: str = ""
    fullness: str = ""
    problems: tuple[str, ...] = ()
    crowd_from: float = inf
    places: float = inf

    @property
    def is_asked(self) -> bool:
        """Whether the node could be asked for its messages."""
        is_socket = self.mode is not None and self.mode & FILE_KIND == SOCKET
        return is_socket and not (self.silence or self.refusal or self.fullness)


def findings(facts: Facts, revision: Revision, chain: ChainTime, wall_s: float) -> list[Finding]:
    """Return all findings, the most urgent first."""
    messages = list(_read(facts.messages, revision))
    return [
        _settings(facts),
        _clock(facts),
        _socket(facts),
        _magic(facts),
        _genesis(facts, messages, chain, wall_s),
        _stake(facts, chain, wall_s),
        _certificates(facts, messages, chain, wall_s),
        _consumers(facts),
        _nodes(facts, wall_s),
        _topology(facts),
        _doors(facts),
        _turns(facts),
    ]


def _nodes(facts: Facts, wall_s: float) -> Finding:
    """Judge whether what is handed in here reaches others, and what others have reaches this node."""
    if facts.status is None:
        return Finding("nodes", None, *_not_run(facts))
    nodes: Mapping[str, Any] = facts.status.get("nodes") or {"listens_at": (), "topology": "", "ledger": None}
    group, is_joined = facts.status.get("group"), bool(nodes["listens_at"] or nodes["topology"] or nodes["ledger"])
    if group and (group["problem"] or not group["joined"]):
        return _not_carried(group)
    if group and not is_joined:
        return _carried_alone(group)
    if not is_joined:
        return Finding("nodes", True, "no other node is named, and none is let in: what is handed in stays here")
    if nodes["problem"]:
        return Finding("nodes", False, nodes["problem"], "correct that file; what was read before stays in force")
    if nodes["only_itself"]:
        said = f"the topology names this node itself alone, at {nodes['only_itself']}"
        return Finding("nodes", False, said, "name another node in it, and this node in that one's")
    said = f"{counted(nodes['hot'], 'node is', 'nodes are')} fetched from, {nodes['fetch_from_us']} fetch from this one"
    if (late := sum(nodes["rejections"].get(word, 0) for word in _BY_THE_CLOCK)) > max(nodes["accepted"], LATE_MIN):
        said = f"{counted(late, 'message')} of other nodes refused by their times, {nodes['accepted']} taken"
        remedy = "compare this machine's clock with theirs before anything else: `timedatectl`"
        return Finding("nodes", False, f"{said}: the clocks differ", remedy)
    if nodes["away"]:
        return _away(said, nodes["away"], wall_s)
    if nodes["missing"]:
        each = "; ".join(f"{one['point']}: {one['cause']}" for one in nodes["missing"])
        remedy = "correct the name in the topology, or see to this machine's name server: `getent hosts NAME` asks it"
        return Finding("nodes", False, f"{said}; {each}", remedy)
    if not nodes["hot"]:
        return _none_hot(said, nodes)
    if not nodes["fetch_from_us"]:
        return _none_fetches(said, nodes)
    return Finding("nodes", True, f"{said}; with that one gone there is none" if nodes["hot"] == 1 else said)


def _none_fetches(said: str, nodes: Mapping[str, Any]) -> Finding:
    """Return what is said of a node from which nobody fetches."""
    if nodes["initiator_only"]:
        said += ": nobody fetches from a node whose diffusion_mode is InitiatorOnly, so what is handed in here stays"
        remedy = "take InitiatorOnly out of router.toml, which has kept it, and out of the node's configuration file"
        return Finding("nodes", False, said, remedy)
    remedy = (
        "let a node name this one; a dmq-node that does not name it fetches after 15 minutes, and at once if "
        "version_1_peers names it"
    )
    return Finding("nodes", False, f"{said}: what is handed in here reaches nobody", remedy)


def _none_hot(said: str, nodes: Mapping[str, Any]) -> Finding:
    """Return what is said of a node that fetches from nobody."""
    why = next(iter(nodes["causes"]), "none was named, and none has dialled in")
    if nodes["ledger"]:
        why = "; ".join([f"{why}; of the ledger's relays", *counts_of(nodes["ledger"]["standing"])])
    remedy = "name others with --topology-file; one that listens at its public address alone is not reached at "
    return Finding("nodes", False, f"{said}; {why}", f"{remedy}an internal one: --host-addr 0.0.0.0 serves both")


def _topology(facts: Facts) -> Finding:
    """Name the keys of the topology that have no effect."""
    if facts.status is None:
        return Finding("topology", None, *_not_run(facts))
    nodes = facts.status.get("nodes", {})
    if not (unknown := nodes.get("unknown_keys")):
        return Finding("topology", True, "none is named" if not nodes.get("topology") else "each key has its effect")
    said = f"{', '.join(unknown)} of {nodes['topology']} {'is' if len(unknown) == 1 else 'are'} unknown"
    return Finding("topology", True, f"{said}, and without effect", "correct the spelling of it, or take it out")


def _doors(facts: Facts) -> Finding:
    """Say how many nodes have dialled in, and who they are where their number has others wait."""
    if facts.status is None:
        return Finding("doors", None, *_not_run(facts))
    doors = facts.status.get("nodes", {}).get("doors", ())
    if not doors:
        return Finding("doors", True, "no node has dialled in")
    full = max(doors, key=lambda one: one["connections"])
    said = f"{counted(full['connections'], 'connection')} of others at {full['listens_at']}"
    if full["connections"] < facts.crowd_from:
        return Finding("doors", True, said)
    said += f", {full['strangers']:,} of strangers from "
    said += counted(full["prefixes"], "address prefix", "address prefixes")
    if full["of_most"]:
        said += f", most ({full['of_most']:,}) from {full['most_from']}"
    said += f": from {facts.crowd_from:g} on those of a crowded prefix are let in slowly, "
    said += f"and at {facts.places:g} a stranger gives way to the next one"
    remedy = "bar the prefixes that do not belong here in the machine's firewall, `router dmq peers` lists them; nodes "
    remedy += "that the topology or the ledger names keep their place"
    return Finding("doors", full["connections"] < facts.places, said, remedy)


def _turns(facts: Facts) -> Finding:
    """Say how many messages other nodes are told of later, since one of a pool is announced at a time."""
    if facts.status is None:
        return Finding("spacing", None, *_not_run(facts))
    waiting = facts.status.get("nodes", {}).get("waiting_turns", {"peers": 0})
    if not waiting["peers"]:
        return Finding("spacing", True, "no message waits to be announced to a node")
    said = f"{counted(waiting['messages'], 'message')} of {counted(waiting['pools'], 'pool')} "
    said += f"{'waits' if waiting['messages'] == 1 else 'wait'} to be announced to {waiting['peer']}"
    if waiting["peers"] > 1:
        others = waiting["peers"] - 1
        said += f", as many or fewer to {counted(others, 'other node')}"
    said += f": one of a pool each {waiting['spacing_s']:g} s, as deployed nodes cut off whoever is quicker"
    remedy = "nothing is lost that lives long enough; `router why ID` says when, `router dmq mempool` lists them"
    return Finding("spacing", True, said, f"{remedy}; a pool whose signers hand in one a minute never waits")


def _not_carried(group: Mapping[str, Any]) -> Finding:
    """Return what is said of a group in which this node does not take part, or where it could not publish."""
    if not group["problem"]:
        return Finding("nodes", None, f"the group {group['name']} is being joined", "ask again in a few seconds")
    cause, _, remedy = group["problem"].partition("; ")
    remedy = remedy or "`router group list` shows the groups of this home; `router group share` lets others join one"
    return Finding("nodes", False, f"the group {group['name']}: {cause}", remedy)


def _carried_alone(group: Mapping[str, Any]) -> Finding:
    """Judge a node that only a group joins to others; `may_publish` is False once a message could not be published."""
    said = f"the topic is carried by the group {group['name']} alone"
    if group["may_publish"]:
        return Finding("nodes", True, said)
    remedy = "add a full link of the group by `router group add`, or name nodes in topology_file"
    return Finding("nodes", False, f"{said}, whose link is for reading only: what is handed in reaches nobody", remedy)


def _away(said: str, away: Sequence[Mapping[str, Any]], wall_s: float) -> Finding:
    """Return what is said of the nodes that a group of local roots lacks, and what to do about the first."""
    each = "; ".join(
        f"{one['address']} is away for {span_text(max(0.0, wall_s - one['since']))}: {one['cause']}" for one in away
    )
    remedy = (
        "see that it runs and that its port is open to this machine, or correct the topology; one that listens at its "
        "public address alone is not reached at an internal one: there, --host-addr 0.0.0.0 serves both"
    )
    if SAID_NO in away[0]["cause"]:
        remedy = "both need one network (--network) and a version that both speak; or correct the topology"
    return Finding("nodes", False, f"{said}; {each}", remedy)


def _read(wires: Iterable[bytes], revision: Revision) -> Iterator[SignedMessage]:
    for wire in wires:
        try:
            yield revision.encoding.read_notified(wire)
        except Malformed:
            continue


def _settings(facts: Facts) -> Finding:
    if facts.problems:
        first, *more = facts.problems
        others = f"; and {len(more)} more" if more else ""
        running = "" if facts.status is None else "; what runs is as it was started"
        return Finding("settings", False, f"{first}{others}{running}", "correct it; `router config check` lists all")
    if not facts.start:
        return Finding("settings", None, *_not_run(facts))
    return Finding("settings", True, "router.toml is in order")


def _clock(facts: Facts) -> Finding:
    if facts.clock is None:
        return Finding("clock", None, *_not_run(facts))
    problem = str(facts.clock["problem"] or "")
    remedy = "set the clock, then confirm it with `router clock confirm`" if problem else ""
    return Finding("clock", not problem, problem or str(facts.clock["state"]), remedy)


def _not_run(facts: Facts) -> tuple[str, str]:
    """Return what is said of a check for which the home's node would have to run, and the remedy."""
    if not facts.start:
        return "not checked: there is no node in this home", "name the node's home with --home"
    if facts.away:
        return "not checked: the service is away", "see to the socket first"
    return "not checked: the node of this home does not run", _start(facts)


def _start(facts: Facts) -> str:
    return f"start it with {facts.start}" if facts.start else "start the node"


def _socket(facts: Facts) -> Finding:
    if facts.mode is None:
        remedy = facts.away or f"{_start(facts)}, or name its socket"
        if facts.status is not None:
            remedy = "name the node's socket; if somebody removed it, the node makes it again within seconds"
        return Finding("socket", False, f"there is no {facts.socket}", remedy)
    if not _is_socket(facts.mode):
        return Finding("socket", False, f"{facts.socket} is no socket", "name the node's socket, as in its settings")
    if facts.fullness or (facts.silence and _is_full(facts.status)):
        return _full(facts)
    if facts.silence:
        remedy = f"{_start(facts)}; a socket file of one that has gone is replaced"
        return Finding("socket", False, facts.silence, remedy)
    rights = f"{facts.socket}, mode {facts.mode & RIGHTS:03o}"
    if facts.mode & OTHERS_WRITE:
        remedy = "add ?mode=660&group=NAME to local_socket, with a group of signers and aggregators"
        return Finding("socket", False, f"{rights}: every user of this machine may hand messages in", remedy)
    return Finding("socket", True, rights)


def _is_full(status: Mapping[str, Any] | None) -> bool:
    """Whether the home's node has no place left at its common socket."""
    return status is not None and status["clients"]["taken"] >= status["clients"]["places"]


def _full(facts: Facts) -> Finding:
    """Return what is said of a node that runs and has no place."""
    if facts.status is not None and _is_full(facts.status) and "consumer" not in facts.fullness:
        said = f"all {facts.status['clients']['places']} places are taken (clients_max)"
    else:
        said = f"its places are taken ({facts.fullness})"
    remedy = "raise that setting of it, or look who holds them, as with `ss -xp`"
    return Finding("socket", False, f"the node runs, and {said}", remedy)


def _is_socket(mode: int) -> bool:
    return mode & FILE_KIND == SOCKET


def _magic(facts: Facts) -> Finding:
    if facts.mode is None or not _is_socket(facts.mode) or facts.silence:
        return Finding("magic", None, "not checked: nobody answers at the socket", _SOCKET_FIRST)
    if facts.refusal:
        remedy = "name the node's network with --network; signers and aggregators need the same"
        return Finding("magic", False, f"asked as a client of {facts.network}: {facts.refusal}", remedy)
    return Finding("magic", True, f"the node takes clients of {facts.network}")


def _genesis(facts: Facts, messages: list[SignedMessage], chain: ChainTime, wall_s: float) -> Finding:
    periods = [one.kes_period for one in messages if one.kes_period is not None]
    here = chain.kes_period_at(wall_s)
    if not periods and not facts.is_asked:
        return Finding("genesis", None, f"{_NOT_ASKED}; by the clock the KES period is {here}", _SOCKET_FIRST)
    if not periods:
        return Finding("genesis", None, f"not checked: no message names a KES period; by the clock it is {here}")
    away = [one for one in periods if abs(one - here) > CLOCK_PERIODS]
    if 2 * len(away) <= len(periods):
        return Finding("genesis", True, f"KES period {here}, as most signers have it")
    text = f"KES period {here} by clock and genesis, and {away[0]} of {len(away)} of {counted(len(periods), 'message')}"
    return Finding("genesis", False, text, "set the clock, and name the network's own Shelley genesis")


def _stake(facts: Facts, chain: ChainTime, wall_s: float) -> Finding:
    if facts.stake_file is not None:
        try:
            stake = read_stake(facts.stake_file, facts.stake_at_s)
        except BadStake as error:
            return Finding("stake", False, str(error), _ASK)
        return _age_of(stake, chain, wall_s)
    if facts.status is None:
        found, remedy = _not_run(facts)
        return Finding("stake", None, found, f"{remedy}, or a stake snapshot with --stake FILE")
    found = facts.status["stake"]
    if found["age_s"] is None:
        return Finding("stake", False, found["problem"] or "there is none: every message is refused", _ASK)
    text = f"{counted(found['pools'], 'pool')}, {age_text(found['age_s'])}"
    if found["age_s"] <= -AHEAD_S and not found["problem"]:
        return Finding("stake", False, text, SET_CLOCK)
    ok = bool(found["is_of_epoch"]) and not found["problem"]
    more = found["problem"] or ("" if found["is_of_epoch"] else "of another epoch")
    return Finding("stake", ok, f"{text}; {more}" if more else text, "" if ok else _ASK)


def _age_of(stake: StakeSet, chain: ChainTime, wall_s: float) -> Finding:
    text = f"{counted(len(stake.pools), 'pool')}, {age_text(stake.age_s(wall_s))}"
    if stake.age_s(wall_s) <= -AHEAD_S:
        return Finding("stake", False, text, SET_CLOCK)
    if stake.is_of_epoch(wall_s, chain):
        return Finding("stake", True, text)
    return Finding("stake", False, f"{text}; of another epoch", _ASK)


def _certificates(facts: Facts, messages: list[SignedMessage], chain: ChainTime, wall_s: float) -> Finding:
    here = chain.kes_period_at(wall_s)
    latest: dict[str, int] = {}
    for one in messages:
        pool, start = one.certificate.pool.text, one.certificate.start_period
        latest[pool] = max(latest.get(pool, 0), start + chain.kes_evolutions_max - here)
    if not latest and not facts.is_asked:
        return Finding("certificates", None, _NOT_ASKED, _SOCKET_FIRST)
    if not latest:
        return Finding("certificates", None, "not checked: the node has no messages")
    ending = sorted((left, pool) for pool, left in latest.items() if left <= ENDING_PERIODS)
    if not ending:
        first = counted(min(latest.values()), "period")
        return Finding("certificates", True, f"of {counted(len(latest), 'pool')}; the first ends in {first}")
    named = ", ".join(f"{pool} in {max(left, 0)}" for left, pool in ending[:NAMED_MAX])
    of_them = f"{len(ending)} of {len(latest)} {'ends' if len(ending) == 1 else 'end'}"
    text = f"{of_them} within {ENDING_PERIODS} KES periods: {named}"
    return Finding("certificates", False, text, "tell the pools: a new KES key and certificate are needed")


def _consumers(facts: Facts) -> Finding:
    if facts.status is None:
        return Finding("consumers", None, *_not_run(facts))
    found = facts.status["consumers"]
    if not found:
        return Finding("consumers", True, "none is named")
    lagging = [one for one in found if one["lag"] > LAG_MAX or one["set_aside"]]
    bound = f"one lags from {LAG_MAX + 1:,} messages on"
    if not lagging:
        most = max(one["lag"] for one in found)
        text = f"{len(found)} named, none lags: at most {counted(most, 'message')} to read; {bound}"
        return Finding("consumers", True, text)
    parts = "; ".join(map(_lag, lagging[:NAMED_MAX]))
    remedy = "see to the aggregator's log"
    if any(one["set_aside"] for one in lagging):
        remedy += "; `router dmq again CONSUMER` gives again what was set aside"
    return Finding("consumers", False, f"{parts}; {bound}", remedy)


def _lag(consumer: Mapping[str, Any]) -> str:
    away = "" if consumer["connected"] else ", not connected"
    return f"{consumer['name']}: {consumer['lag']:,} to read, {consumer['set_aside']:,} set aside{away}"
