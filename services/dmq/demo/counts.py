"""The checks of the demo: the answers to signers, the messages read by aggregators, and the log, compared with each
other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from router.cli.conditions import Condition
from services.dmq import reasons
from services.dmq.core.messages.signed_message import Dmq05
from services.dmq.demo.script import SIGNERS, Script, ScriptLine
from services.dmq.demo.signers import ACCEPTED, REJECTED, UNKNOWN
from services.dmq.demo.stage import CONSUMERS, Played

PAUSE_S = 60
NAME = "dmq"
COLUMNS = ("messages", "owed", "done", "ended", "pending", "unknown", "unaccounted", "doubled")
Key = tuple[str, str]
"""Id and pool of a message, since an id alone does not identify it."""


def key_of(line: ScriptLine) -> Key:
    message = Dmq05().read(line.wire)
    return message.id.hex(), line.pool.hex()


def _keys(reply: dict[str, Any]) -> list[Key]:
    return [(own_id, pool) for own_id, pool in reply.get("messages", ())]


class Counts(Struct, frozen=True):
    """All that was counted, and what is to be made of it. `fates`: what `router why` says, by id.
    `peers_at`: the live messages, and when peers may hear of each. `audit`: what the router's audit found."""

    script: Script
    played: Played
    fates: dict[str, dict[str, Any]]
    status: dict[str, Any]
    peers_at: dict[Key, int]
    audit: Mapping[str, Any] = field(default_factory=dict)

    def untold(self) -> list[str]:
        """Return the ids of messages whose events are not all in the log yet; events come into it after the answer."""
        lines = self.script.lines
        return [
            key_of(lines[number])[0]
            for number, one in self.played.answers.items()
            if (one["answer"] == ACCEPTED and not self._is_told(key_of(lines[number])))
            or (one["answer"] == REJECTED and not self._is_rejection_told(lines[number]))
        ]

    def checks(self) -> Iterator[Condition]:
        """Yield each count of the demo, and whether it is as it must be."""
        lines, answers = self.script.lines, self.played.answers
        accepted = [key_of(lines[number]) for number, one in answers.items() if one["answer"] == ACCEPTED]
        rejected = [number for number, one in answers.items() if one["answer"] == REJECTED]
        unknown = [number for number, one in answers.items() if one["answer"] == UNKNOWN]
        choking = key_of(self.script.choking)
        yield Condition(
            "messages handed in, each over a connection of its own", len(answers), len(answers) == len(lines)
        )
        yield Condition("answered [1]", len(accepted), len(accepted) + len(rejected) + len(unknown) == len(lines))
        yield Condition("answers lost with a killed node", len(unknown), len(unknown) <= SIGNERS * self.played.kills)
        as_meant = [number for number in rejected if self._is_meant(lines[number], answers[number]["text"])]
        yield Condition("rejected, each for its own reason", len(rejected), as_meant == rejected)
        for name in CONSUMERS:
            read = Counter(self._read(name))
            owed = [key for key in accepted if key != choking or name != CONSUMERS[0]]
            missing = sum(not read[key] for key in owed)
            yield Condition(f"of these the {name} aggregator has read", len(owed) - missing, not missing)
            doubled = sum(self._doubled(name).values())
            yield Condition(f"given to the {name} aggregator again after it acknowledged", doubled, not doubled)
        aside = {one["name"]: one["set_aside"] for one in self.status["consumers"]}
        wanted = {CONSUMERS[0]: int(choking in self.peers_at), CONSUMERS[1]: 0}
        yield Condition("set aside for the aggregator that choked on it", aside[CONSUMERS[0]], aside == wanted)
        early, late = (self.peers_at.get(key_of(one), 0) for one in self.script.twice)
        kept_back = bool(early and late and abs(late - early) >= PAUSE_S)
        yield Condition(
            "kept back from peers, as its pool spoke twice within a minute",
            int(kept_back),
            kept_back or not (early and late),
        )
        both = sum(key_of(one) in self.peers_at for one in self.script.one_id)
        yield Condition(
            "live under one id, as a pool has signed what another had", both, both == 2 or bool(self.played.kills)
        )
        known = [key for key in accepted if self._is_told(key)]
        yield Condition("of which router why tells that they were accepted and read", len(known), known == accepted)
        told = [number for number in rejected if self._is_rejection_told(lines[number])]
        yield Condition("of which router why tells the reason", len(told), told == rejected)
        yield from self._audited(len(accepted), len(unknown))

    def _audited(self, accepted: int, unknown: int) -> Iterator[Condition]:
        """Yield what the router's audit must find in the log: each message that was taken, at each aggregator."""
        row = next((one for one in self.audit["services"] if one["service"] == NAME), dict.fromkeys(COLUMNS, 0))
        taken, owed, ends = row["messages"], row["owed"], self.audit["service_ends"]
        yield Condition("taken, by router audit", taken, accepted <= taken <= accepted + unknown)
        yield Condition("of these owed to the aggregators", owed, owed == len(CONSUMERS) * taken)
        aside = sum(one["count"] for one in ends if one["reason"] == reasons.SET_ASIDE.word)
        yield Condition("read, or set aside with a reason", row["done"] + aside, row["done"] + aside == owed)
        yield Condition("read twice", row["doubled"], not row["doubled"])
        left = owed - sum(row[state] for state in COLUMNS[2:7])
        yield Condition("residual", left, not left)
        lost = row["unaccounted"] + self.audit["unaccounted"]
        yield Condition("unaccounted for by router audit", lost, not lost)

    @staticmethod
    def _is_meant(line: ScriptLine, text: str) -> bool:
        return line.fault is not None and line.fault.value in text

    def _read(self, name: str) -> Iterator[Key]:
        for reply in self.played.replies[name]:
            yield from _keys(reply)

    def _doubled(self, name: str) -> Counter[Key]:
        """Return the messages that came again after the node knew that they were read, from a later reply on the same
        connection."""
        replies = self.played.replies[name]
        acknowledged = set[Key]()
        doubled = Counter[Key]()
        for at, reply in enumerate(replies):
            found = _keys(reply)
            doubled.update(key for key in found if key in acknowledged)
            if any(one["connection"] == reply["connection"] for one in replies[at + 1 :]):
                acknowledged.update(found)
        return doubled

    def _events(self, key: Key, event: str) -> list[dict[str, Any]]:
        """Return the fields of such events of this message."""
        noted = [one for one in self.fates.get(key[0], {}).get("noted", ()) if one["event"] == event]
        return [one["fields"] | {"reason": one["reason"]} for one in noted]

    def _is_told(self, key: Key) -> bool:
        """Whether the log tells that the message was accepted, and what became of it at each aggregator."""
        numbers = {one["number"] for one in self._events(key, "dmq_accepted") if one["pool"] == key[1]}
        ends = [*self._events(key, "dmq_read"), *self._events(key, "dmq_set_aside")]
        return bool(numbers) and {one["recipient"] for one in ends if one["number"] in numbers} == set(CONSUMERS)

    def _is_rejection_told(self, line: ScriptLine) -> bool:
        name = line.fault.value if line.fault is not None else ""
        key = key_of(line)
        return any((one["name"], one["pool"]) == (name, key[1]) for one in self._events(key, "dmq_rejected"))
