"""Judge node, clock, port, TLS, addresses and LAN by facts; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from router.cli.guests import guest_problems, guests_beside
from router.cli.output import address_text
from router.core.wire.address import AddressSource, Reach, reach_of, refusal_of
from router.core.wire.lifetime import SECOND_NS, apart_words
from router.core.wire.text import counted, key_text, short, span_text
from router.doctor.finding import (
    AdvertisedAddress,
    DialBackAnswer,
    DialResult,
    Finding,
    LanFacts,
    Running,
    SamplingFacts,
    split_remedy,
)
from router.settings.config import Config

CLOCK_BACK_S = 120.0
NOBODY_HEARD = (
    "if another node is on this network: see that `router lan on` there was run, too, that the firewall lets UDP port "
    "4100 and multicast in, and that the access point does not keep its guests apart; two machines on one cable tell"
)
NAMED_MAX = 3
"""Most neighbours without a link that a finding names."""


def judge_node(running: Running | None, why: str, version: str) -> Finding:
    """Judge whether a node runs on this home and answers. `version`: that of the program as it is installed now."""
    if running is None:
        said, remedy = split_remedy(why)
        return Finding("node", None, said, remedy)
    status = running.status
    if is_barred(running):
        return Finding("node", False, "does nothing, as a copy of this home runs; the line below says what to do")
    away = [one for one in status["services"] if one["state"] != "running"]
    if away:
        said = ", ".join(f"{one['name']} ({one['problem'] or 'no cause is known'})" for one in away)
        return Finding("node", False, f"its services do not all run: {said}", "see the node's log for the cause")
    if (started := status.get("version", version)) != version:
        said = f"runs version {started}, and version {version} has been installed since it was started"
        return Finding("node", False, said, "start it anew: `router service restart`, or as it was started")
    return Finding("node", True, f"runs as {status['role']} since {span_text(status['uptime_s'])}")


def is_barred(running: Running | None) -> bool:
    """Whether the node has stopped because a copy of its home runs: its services and links are down for that reason."""
    return running is not None and bool((running.status.get("copy") or {}).get("barred"))


def judge_copy(running: Running) -> Iterator[Finding]:
    """Judge whether another node runs, or ran, with this node's key, if one was heard of."""
    if found := running.status.get("copy"):
        said, remedy = split_remedy(found["problem"])
        yield Finding("copy", False, said, remedy)


def judge_superseded(running: Running) -> Iterator[Finding]:
    """Judge whether neighbours refuse this node's key, since another has taken its place there."""
    if found := running.status.get("superseded"):
        said, remedy = split_remedy(found["problem"])
        yield Finding("key", False, said, remedy)


def judge_alarms(running: Running) -> Iterator[Finding]:
    """Report what the node finds wrong with itself: each alarm that stands, or that there is none."""
    found = running.status.get("alarms", ())
    if not found:
        yield Finding("alarms", True, "the node finds nothing wrong with its log, store, queues and clock")
    for one in found:
        said, remedy = split_remedy(one["text"])
        yield Finding("alarms", False, said, remedy)


def judge_clock(running: Running | None, near_s: float, now_s: float, newest_s: float) -> Finding:
    """Judge the clock: by the node and its neighbours; without a node by the newest file of the home."""
    if running is None:
        if newest_s - now_s > CLOCK_BACK_S:
            apart = apart_words(int((now_s - newest_s) * SECOND_NS))
            said = f"this machine's clock is {apart} the newest file of the home: it was set back"
            return Finding("clock", False, said, "set it (`timedatectl` shows whether it is synchronised)")
        return Finding("clock", None, "compared with no other clock, as no node runs")
    if problem := running.status["clock"]["problem"]:
        said, remedy = split_remedy(problem)
        return Finding("clock", False, said, remedy)
    offsets = {_called(one): one["offset_ms"] for one in running.peers if one["offset_ms"] is not None}
    if not offsets:
        return Finding("clock", None, "compared with no other clock, as no neighbour is connected")
    name, most_ms = max(offsets.items(), key=lambda one: abs(one[1]))
    if abs(most_ms) > near_s * 1000:
        said = f"the clock of {name} is {apart_words(int(most_ms * 1e6))} this one"
        return Finding("clock", False, said, "see which of the two is wrong (`timedatectl` on both), and set it")
    return Finding("clock", True, f"within {abs(most_ms):.0f} ms of its neighbours' ({len(offsets)} compared)")


def judge_port(url: str, problem: str, dial: DialResult | None, started: bool) -> Finding:
    """Judge a URL to listen on. `problem`: why nobody could listen there, found without a node; `started`: whether the
    running node listens there; `dial`: the result of dialling it, if a node runs."""
    if problem:
        said, remedy = split_remedy(problem)
        return Finding("port", False, said, remedy)
    if dial is None:
        return Finding("port", True, f"{url} is free for the node")
    if not started:
        said = f"router.toml names {url} in node.listen, and the running node does not listen there"
        return Finding("port", None, said, "start it again, unless it was started with --listen")
    if dial.why:
        said, remedy = split_remedy(dial.why)
        return Finding("port", False, f"{url} does not answer: {said}", remedy)
    return Finding("port", True, f"{url} answers")


def judge_tls(url: str, dial: DialResult, key: bytes) -> Finding | None:
    """Judge the key that answered at this node's own port; None if nothing answered, which `judge_port` reports,
    or nothing that proves a key by itself."""
    if not dial.key:
        return None
    if dial.key != key.hex():
        said = f"at {url} answers {short(key_text('addr', bytes.fromhex(dial.key)))}, not this node"
        return Finding("tls", False, said, "stop that other program, or choose another port in node.listen")
    return Finding("tls", True, f"TLS 1.3 with this node's key at {url}, in {dial.took_s * 1000:.0f} ms")


def judge_nothing_listens(config: Config) -> Finding:
    """Judge a node at which only apps of its own machine can connect."""
    said = "listens for apps of this machine only"
    if config.node.role == "core":
        return Finding("port", False, f"a core node that {said}", 'name a URL in node.listen: "tls://0.0.0.0:4100"')
    return Finding("port", True, f"{said}: it dials others, and nobody dials it")


def judge_addresses(
    found: Sequence[AdvertisedAddress], config: Config, key: bytes, ports: frozenset[int], *, on_loopback: bool = False
) -> Iterator[Finding]:
    """Judge all addresses at which others are to reach this node: those of node.advertise, else of node.listen.
    `on_loopback`: it listens on loopback alone."""
    named = config.node.advertise
    for one in sorted(found, key=lambda one: named.index(one.address.url) if one.address.url in named else 0):
        if on_loopback and named and reach_of(one.address.host) is Reach.LOOPBACK:
            yield _judge_loopback(one, key, ports)
        elif named or reach_of(one.address.host) is not Reach.LOOPBACK:
            yield judge_address(one, key, ports)
    if ports and not named and all(reach_of(one.address.host) is Reach.LOOPBACK for one in found):
        where = f"only this machine reaches it ({found[0].address.url})" if found else "it names no address to others"
        remedy = "for others to reach it, name an address in node.advertise: tls://node.example.org:4100"
        yield Finding("address", None, f"{where}, so it has no link and nobody is told where it is", remedy)


def _judge_loopback(one: AdvertisedAddress, key: bytes, ports: frozenset[int]) -> Finding:
    """Judge a loopback address of a node that listens on loopback alone: its owner's choice, if this node answers."""
    found = _answered(f"{one.address.url}, which only nodes on this machine reach,", one, key, ports)
    if found.ok is not True:
        return found
    remedy = 'for others to reach it, listen on "tls://0.0.0.0:PORT" and name an address of theirs in node.advertise'
    return replace(found, remedy=remedy)


def judge_address(one: AdvertisedAddress, key: bytes, ports: frozenset[int]) -> Finding:
    """Judge one address at which others are to reach this node. `ports`: the ports on which it listens."""
    url = one.address.url
    if refused := refusal_of(one.address, AddressSource.OPERATOR):
        said, remedy = split_remedy(refused[1])
        return Finding("address", False, said, remedy)
    if one.unresolved:
        said = f"{url} leads nowhere: {one.unresolved}"
        return Finding("address", False, said, "mend the entry in DNS, or name another address in node.advertise")
    unfit = [ip for ip in one.ips if reach_of(ip) not in (Reach.PUBLIC, Reach.PRIVATE)]
    if unfit:
        said = f"{url} leads to {unfit[0]}, which {reach_of(unfit[0]).value}"
        return Finding("address", False, said, "mend the entry in DNS or in /etc/hosts")
    where = f"{url} ({', '.join(map(str, one.ips[:2]))})" if str(one.address.host) != str(one.ips[0]) else url
    if any(reach_of(ip) is Reach.PRIVATE for ip in one.ips):
        where += ", which only its own network reaches,"
    return _answered(where, one, key, ports)


def _answered(where: str, one: AdvertisedAddress, key: bytes, ports: frozenset[int]) -> Finding:
    if one.dial is None:
        return Finding("address", None, f"{where} was not dialled, as no node runs")
    if one.dial.key == key.hex():
        return Finding("address", True, f"{where} leads to this node")
    if not one.dial.key and not one.dial.why:
        return Finding("address", None, f"{where} answers; only a link shows that it is this node")
    if one.dial.key:
        said = f"at {where} answers {short(key_text('addr', bytes.fromhex(one.dial.key)))}, not this node"
        return Finding("address", False, said, "name this node's own address in node.advertise, or mend the forwarding")
    port = int(one.address.url.rpartition(":")[2]) if one.address.url.rpartition(":")[2].isdecimal() else 0
    elsewhere = f"; the node itself listens on {_ports(ports)}" if port and port not in ports else ""
    said = f"{where} does not answer this machine ({split_remedy(one.dial.why)[0]}){elsewhere}"
    remedy = "a router at home may refuse that to its own network only: what `reachability` says counts"
    return Finding("address", None, said, remedy)


def _ports(ports: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(ports))) or "no port"


def judge_reachability(found: Sequence[DialBackAnswer], why: str) -> Finding:
    """Judge whether neighbours that dialled back reached this node; a neighbour that names no address has not dialled.
    `why`: why none was asked."""
    if not found:
        said, remedy = split_remedy(why)
        return Finding("reachability", None, f"not checked: {said}", remedy)
    reached = [one for one in found if not one.why]
    if reached:
        rest = f", {len(found) - len(reached)} other could not" if len(reached) < len(found) else ""
        return Finding("reachability", True, f"{reached[0].neighbour} reached this node at {reached[0].at}{rest}")
    dialled = [one for one in found if one.at]
    if not dialled:
        said, remedy = split_remedy(found[0].why)
        return Finding("reachability", None, f"not checked by {found[0].neighbour}: {said}", remedy)
    first = dialled[0]
    said = f"{first.neighbour} did not reach this node at {first.at}: {split_remedy(first.why)[0]}"
    remedy = "let that TCP port in at the firewall, and forward it where a router stands between; uplinks need neither"
    return Finding("reachability", False, said, remedy)


def judge_sampling(sampling: SamplingFacts) -> Finding:
    """Say from whom a core learns of other cores; that it knows none is no fault, as it may be the first."""
    if sampling.known is None:
        said = "this node has no address where others reach it, so it takes no part in learning of other cores"
        return Finding("sampling", None, said, "name one in node.listen or node.advertise")
    if sampling.is_private and not sampling.known:
        said = (
            "this node's addresses lie in a private network, where cores do not learn of each other by what others say "
            "of them"
        )
        remedy = "add each core there at the others by `router peer add`, or name a public address in node.advertise"
        return Finding("sampling", None, said, remedy)
    sources = [
        *(f"{name} (a neighbour)" for name in sampling.neighbours),
        *(f"{name} (of `seeds`)" for name in sampling.seeds if name not in sampling.neighbours),
    ]
    known = counted(sampling.known, "other core")
    if sources:
        return Finding("sampling", True, f"learns of other cores from {', '.join(sources)}; exchanges {known} now")
    if sampling.known:
        return Finding("sampling", True, f"learns of other cores from those it knows: it exchanges {known} now")
    if sampling.away:
        whom = f"{', '.join(sampling.away[:NAMED_MAX])}{' and others' * (len(sampling.away) > NAMED_MAX)}"
        remedy = "a minute after its link is up look again; `router peers` says when it is dialled"
        return Finding("sampling", None, f"knows no other core yet, and has no link with {whom} now", remedy)
    remedy = "`router peer add` of one core that knows others is enough"
    return Finding("sampling", None, "knows no other core, and nobody to ask", remedy)


def judge_lan(lan: LanFacts) -> Finding:
    """Judge the LAN by the nodes that the discovery service has heard, and by what this machine alone can find out."""
    machine = _machine(lan)
    if lan.rows is None:
        said, remedy = split_remedy(lan.why)
        return Finding("lan", None, f"{machine}; whether others hear it was not checked: {said}", remedy)
    if not lan.rows:
        return Finding("lan", None, f"{machine}; no network is there")
    allowed = [one for one in lan.rows if one["allowed"]]
    if not allowed:
        names = ", ".join(dict.fromkeys(str(one["name"] or one["network"]) for one in lan.rows))
        return Finding("lan", None, f"off: no network is allowed ({names})", "allow this one with `router lan on`")
    if lan.problem or lan.full:
        said, remedy = split_remedy(lan.problem or lan.full)
        return Finding("lan", False, said, remedy)
    heard = sum(one["heard"] for one in allowed)
    if heard:
        where = ", ".join(str(one["interface"]) for one in allowed if one["heard"])
        return Finding("lan", True, f"{counted(heard, 'node')} heard on {where}")
    lost = [one for one in lan.interfaces if not one.came_back]
    return Finding("lan", False if lost else None, f"nobody was heard; {machine}", NOBODY_HEARD)


def _machine(lan: LanFacts) -> str:
    back = [one.name for one in lan.interfaces if one.came_back]
    lost = [f"{one.name} ({one.why})" for one in lan.interfaces if not one.came_back]
    said = f"multicast works within this machine on {', '.join(back)}" if back else "no interface carries multicast"
    if lost:
        said = f"multicast does not come back on {', '.join(lost)}" + (
            f", it does on {', '.join(back)}" if back else ""
        )
    if lan.tunnel:
        said += f"; all other traffic goes through {lan.tunnel}, perhaps a VPN that shuts the LAN out"
    return said


def judge_guests(running: Running | None) -> Iterator[Finding]:
    """Judge the guests that invitations have let in; there is no finding if all is well."""
    if running is None:
        return
    facts = running.status["guests"]
    for problem in guest_problems(facts):
        said, remedy = split_remedy(problem)
        yield Finding("guests", False, said, remedy)
    if said := guests_beside(facts):
        yield Finding("guests", True, said)


def judge_neighbours(running: Running | None, most: int) -> Iterator[Finding]:
    """Judge each neighbour by its last contact; if there are more than `most`, return only those with a problem and
    those that are blocked."""
    if running is None or is_barred(running):
        return
    rows = [one for one in running.peers if one["learned"] is not None]
    if not rows:
        yield Finding("neighbour", None, "none is known", "`router peer add` adds one")
    for number, one in enumerate(rows):
        found = _neighbour(one)
        if number < most or found.ok is False or one["state"] == "blocked":
            yield found
    if len(rows) > most:
        yield Finding("neighbour", None, f"{len(rows)} are known", "`router peer list` shows them all")


def _neighbour(one: Mapping[str, Any]) -> Finding:
    name, last_s = _called(one), one["last_contact_s"]
    if one["state"] == "blocked":
        return judge_blocked(name, one["name"] or address_text(one["address"]))
    if one["state"] == "connected":
        problem = one["problem"]
        rtt = "" if one["rtt_ms"] is None else f", round trip {one['rtt_ms']:.0f} ms"
        if not problem:
            return Finding("neighbour", True, f"{name} is connected{rtt}")
        said, remedy = split_remedy(problem)
        return Finding("neighbour", False, f"{name} is connected, and {said}", remedy)
    since = "not heard since this node started" if last_s is None else f"heard {span_text(last_s)} ago"
    said, remedy = split_remedy(one["problem"] or "")
    why = f": {said}" if said else ""
    if one.get("urls") and not remedy:
        typed = one["name"] or address_text(one["address"])
        remedy = f"if it has moved, and told nobody here: `router peer add {typed} URL`"
    if one["uplink"]:
        return Finding("neighbour", False, f"the uplink {name} is away, {since}{why}", remedy)
    return Finding("neighbour", None, f"{name} is away, {since}{why}", remedy)


def judge_blocked(name: str, typed: str) -> Finding:
    """Return the finding about a neighbour that this node has blocked: the owner's choice, but often a forgotten one.
    `typed`: the name by which commands take it."""
    remedy = f"if that is not wanted any more: `router peer unblock {typed}`"
    return Finding("neighbour", True, f"{name} is blocked on this node: nothing goes there or comes from there", remedy)


def judge_blocked_in_file(config: Config) -> Iterator[Finding]:
    """Name the neighbours that are blocked according to `router.toml`; for a node that does not run."""
    for one in config.peers:
        if one.blocked:
            typed = one.name or key_text("addr", one.address)
            yield judge_blocked(typed, typed)


def _called(one: Mapping[str, Any]) -> str:
    return one["name"] or short(address_text(one["address"]))
