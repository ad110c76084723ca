"""The node at a glance: its own facts, its services, its load, and counts since it started."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from router.cli.version import own_version
from router.core.log.events import EventCounts
from router.node.questions.clock import judgement
from router.node.questions.invitations import InvitedRows
from router.node.questions.question import CycleView, Questions, Respond

COUNTED = ("accepted", "delivered", "acked", "refused", "dropped", "expired", "duplicate", "forwarded")


class StatusQuestions(Questions):
    """Tells the status. `facts` returns the node's own part of it; `services` one row for each of its services, given
    the keys of all open links; `known_keys` the names of the keys that the home keeps, from memory. The version is that
    of the program at the node's start."""

    def __init__(
        self,
        facts: Callable[[], dict[str, Any]],
        services: Callable[[frozenset[bytes]], list[dict[str, Any]]],
        invited: InvitedRows,
        backup: Callable[[], dict[str, Any] | None],
        known_keys: Callable[[], Mapping[bytes, str]] = dict,
    ) -> None:
        self._facts = facts
        self._services = services
        self._invited = invited
        self._backup = backup
        self._known_keys = known_keys
        self._version = own_version()

    def answers(self) -> dict[str, Respond]:
        return {"status": self._status}

    def _status(self, asked: CycleView, _: str) -> dict[str, Any]:
        node = asked.router.queues.node
        counted, of_services = asked.counts.apart(asked.router.rejections.waiting(asked.now()))
        facts = self._facts()
        return {
            **facts,
            "version": self._version,
            "services": self._service_rows(asked),
            "invited": self._invited(asked.router),
            "peers": len(asked.open_links.writers),
            "queue": {"messages": node.messages, "bytes": node.bytes},
            "groups": len({one.group for one in asked.router.groups}),
            "counters": _counters(counted) | {"commits": asked.commits},
            "reasons": dict(Counter(counted.reasons()) + asked.router.guests.turned_away),
            "of_services": {"counters": _counters(of_services), "reasons": of_services.reasons()},
            "log_seq": asked.store.next_seq - 1,
            "guests": asked.router.guests.facts(),
            "clock": judgement(asked),
            "alarms": asked.housekeeping.alarms.rows(str(facts.get("home", "")), self._known_keys()),
            "restored": asked.router.life.facts(),
            "announced": asked.router.moving.announced(asked.now()),
            "backup": self._backup(),
            "copy": asked.router.copies.facts(),
        }

    def _service_rows(self, asked: CycleView) -> list[dict[str, Any]]:
        """Return the rows of the services, each with what it said when it refused a message last."""
        refusals, now = asked.router.refusals, asked.now()
        rows = self._services(frozenset(link.key for link in asked.router.links))
        return [{**row, "refused": refusals.facts(bytes.fromhex(row["address"]), now)} for row in rows]


def _counters(counted: EventCounts) -> dict[str, int]:
    counts = counted.events()
    return {name: counts.get(name, 0) for name in COUNTED}
