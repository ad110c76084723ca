"""Questions of an operator to a running DMQ node: its state, its mempool, and to give a message once more."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from itertools import islice
from typing import Any

from router.service import contract as c

from .admission import Admission
from .clients.connections import ClientSessions
from .clients.consumers import Consumers
from .clients.cursor import Cursor
from .holdings import ACCEPTED, Holdings
from .mempool import Row
from .peers.ledger import RelayStanding
from .peers.node_peers import NodePeers
from .peers.rejections import PeerRejections
from .stake.source import StakeSource
from .topic_group import TopicGroup

PAGE_MAX = 200
"""Most messages listed in one answer."""
PEERS_SHOWN = 128
"""Most rows of `router dmq peers`; the others are counted, so that strangers in all places hide no peer."""
CAUSES_SHOWN = 5
"""Most causes for which clients were closed that `status` names."""
TURNS_SHOWN = 8
"""Most nodes to which a message waits to be announced that `router why` names."""
_ORDER = {"hot": -3, "warm": -2, "cold": -1, "handshake": 1}
_ID = "[0-9a-fA-F]{1,128}"
_WHOLE = "[0-9a-fA-F]{64}"
_KNOWN = "status, mempool [NUMBER], peers, relays [NUMBER], why ID, reload and again CONSUMER [ID]"


class Questions:
    """Answers questions. `settings`: those that `status` names as well."""

    def __init__(
        self,
        holdings: Holdings,
        clients: ClientSessions,
        consumers: Consumers,
        stake: StakeSource,
        admission: Admission,
        settings: Mapping[str, str],
        nodes: NodePeers,
        group: TopicGroup,
    ) -> None:
        self._holdings = holdings
        self._clients = clients
        self._consumers = consumers
        self._stake = stake
        self._admission = admission
        self._settings = settings
        self._nodes = nodes
        self._group = group

    def answer(self, asked: c.Asked, now: c.Now) -> Iterator[c.Deed]:
        """Yield what follows from a question, its answer last; one that is not understood is answered with `error`."""
        words = asked.argument.split()
        match asked.word, words:
            case "status", []:
                value = self.status(now)
            case "peers", []:
                rows = [*self._nodes.peers.as_status(), *self._nodes.away()]
                value = peers_shown(rows, self._nodes.peers.exchange.rejections)
            case "relays", [] | [_]:
                value = self._relays(words, now)
            case "reload", []:
                yield from self._nodes.topology.reload(asked.number, now)
                return
            case "mempool", [] | [_]:
                value = self._mempool(words, now)
            case "why", [own_id] if re.fullmatch(_WHOLE, own_id):
                value = self._stands(bytes.fromhex(own_id), now)
            case "again", [_, own_id] if not re.fullmatch(_ID, own_id):
                value = {"error": f'"{own_id[:40]}" is no id of a message, nor how one begins: it has hex digits alone'}
            case "again", [name, *ids] if name in self._holdings.cursors and len(ids) < 2:
                value = yield from self._again(name, ids)
            case "again", [name, *_] if name in self._holdings.gone:
                value = {
                    "error": f"the consumer {name} is named no more; name it again with --consumer or in router.toml"
                }
            case "again", [name, *_] if name not in self._holdings.cursors:
                known = ", ".join(self._holdings.cursors) or "none"
                value = {"error": f'there is no consumer "{name[:40]}"; the configuration names {known}'}
            case _:
                value = {"error": f"a DMQ node knows {_KNOWN}, not {asked.word}"}
        yield c.Answer(asked.number, value)

    def status(self, now: c.Now) -> dict[str, Any]:
        """Return what `router dmq status` shows."""
        holdings = self._holdings
        mempool, stake = holdings.mempool, holdings.authentication.stake
        causes, others = self._clients.frequent_causes(CAUSES_SHOWN)
        rejected = {word: count for word, count in sorted(holdings.counts.items()) if word != ACCEPTED}
        return {
            "magic": holdings.magic,
            **self._settings,
            "mempool": {"messages": len(mempool), "bytes": mempool.bytes},
            "accepted": holdings.counts.get(ACCEPTED, 0),
            "rejected": rejected,
            "verified": self._admission.verifications,
            "consumers": [
                self._progress(name, cursor) | {"connected": name in self._consumers.connected}
                for name, cursor in sorted(holdings.cursors.items())
            ],
            "named_no_more": [
                self._progress(name, gone.cursor) | {"forgotten_at": gone.until_s}
                for name, gone in sorted(holdings.gone.items())
            ],
            "stake": {
                "age_s": round(stake.age_s(now.wall_s), 1) if stake else None,
                "pools": len(stake.pools) if stake else 0,
                "is_of_epoch": bool(stake and stake.is_of_epoch(now.wall_s, holdings.authentication.topic.chain)),
                "problem": self._stake.problem,
            },
            "nodes": self._nodes.as_status(now),
            "group": self._group.as_status(),
            "clients": {
                "connected": len(self._clients),
                "taken": self._clients.taken,
                "places": self._clients.places,
                "broken_off": self._clients.broken_off,
                "without_place": self._clients.without_place,
                "gave_way": self._clients.gave_way,
                "causes": causes,
                "other_causes": others,
            },
        }

    def _progress(self, name: str, cursor: Cursor) -> dict[str, Any]:
        return {"name": name, "lag": cursor.lag(self._holdings.mempool), "set_aside": len(cursor.set_aside)}

    def _again(self, name: str, ids: list[str]) -> Generator[c.Deed, None, dict[str, Any]]:
        """Give messages again that were set aside for a consumer: all, or those whose id begins like this; return the
        ids."""
        rows = map(self._holdings.mempool.get, list(self._holdings.cursors[name].set_aside))
        given: list[str] = []
        for row in rows:
            if row is not None and row.id.hex().startswith(ids[0].lower() if ids else ""):
                yield from self._consumers.give_again(name, row.number)
                given.append(row.id.hex())
        if ids and not given:
            said = f"no message whose id begins with {ids[0][:40]} is set aside for {name}"
            return {"error": f"{said}; `router dmq status` shows how many are"}
        return {"again": given}

    def _stands(self, own_id: bytes, now: c.Now) -> dict[str, Any]:
        """Return how the message of this id stands, for `router why`: who has still to read it, for whom it is set
        aside, until when it is kept, and which nodes are told of it later; of several pools' the latest."""
        if not (rows := self._holdings.mempool.under(own_id)):
            return {"error": "no live message has this id"}
        row, cursors = rows[-1], sorted(self._holdings.cursors.items())
        aside = [name for name, cursor in cursors if row.number in cursor.set_aside]
        return {
            "to_be_read_by": " and ".join(name for name, cursor in cursors if cursor.awaits(row.number)) or "nobody",
            "set_aside_for": " and ".join(aside) or None,
            "kept_until_it_expires": int(row.expires_at),
            **self._nodes.peers.exchange.trail.about(row.number),
            **self._turns(row, now),
        }

    def _turns(self, row: Row, now: c.Now) -> dict[str, Any]:
        """Return to which nodes a message waits to be announced, and until when; nothing if to none."""
        exchange = self._nodes.peers.exchange
        turns = dict(islice(exchange.turns([row], now)[row.number].items(), TURNS_SHOWN))
        return {"to_be_announced": {"turns": turns, "spacing_s": exchange.spacing_s}} if turns else {}

    def _relays(self, words: list[str], now: c.Now) -> dict[str, Any]:
        """Return a page of the relays of the ledger that are not connected."""
        after = int(words[0]) if words and words[0].isdecimal() else 0
        found = [one for one in self._nodes.relays(now) if one[1] is not RelayStanding.CONNECTED]
        page = [{"relay": relay, "standing": standing} for relay, standing in found[after : after + PAGE_MAX]]
        return {"relays": page, "next": after + PAGE_MAX if len(found) > after + PAGE_MAX else 0}

    def _mempool(self, words: list[str], now: c.Now) -> dict[str, Any]:
        after = int(words[0]) if words and words[0].isdecimal() else 0
        rows = list(islice(self._holdings.mempool.after(after), PAGE_MAX + 1))
        turns = self._nodes.peers.exchange.turns(rows[:PAGE_MAX], now)
        shown = [
            {
                "number": row.number,
                "id": row.id.hex(),
                "pool": row.pool.hex(),
                "size": row.size,
                "expires_at": int(row.expires_at),
                "peers_at": int(row.peers_at),
                "turn_at": max(turns[row.number].values(), default=0),
            }
            for row in rows[:PAGE_MAX]
        ]
        return {"messages": shown, "next": shown[-1]["number"] if len(rows) > PAGE_MAX else 0}


def peers_shown(rows: list[dict[str, Any]], rejections: PeerRejections) -> dict[str, Any]:
    """Return the first rows, those of agreed peers before all others, how many of each state are left out, and the
    messages of addresses that are not in the rows and that were not taken, by reason."""
    rows = sorted(rows, key=lambda one: _ORDER.get(one["state"], 0))
    shown, left_out = rows[:PEERS_SHOWN], Counter(one["state"] for one in rows[PEERS_SHOWN:])
    others = rejections.beside(one["address"] for one in shown)
    return {"peers": shown, "left_out": left_out, "rejected_of_others": others}
