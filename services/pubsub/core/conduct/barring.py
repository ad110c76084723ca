"""What follows from proofs that a router passes nothing on: it loses its place, and the operator is told by name.

`Withholding` decides, by what `Dissemination` and `Comparing` tell it; this part knows who is connected, and shows the
partners of this node with the proofs against them.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any

from router.core.wire.crypto import PublicKey
from router.service import contract as c
from router.service.roles import overlay as o
from services.pubsub.core.conduct.withholding import Barred
from services.pubsub.core.known import Known
from services.pubsub.core.others import Others
from services.pubsub.reasons import WITHHOLDS

PEERS = "peers"
PEERS_SHOWN_MAX = 200
"""Most partners that fit an answer; those that are barred or suspected come first."""
WAKE_MIN_S = 0.01
"""The shortest wait: a wake that rounding brings a moment early is not repeated at once."""


class Barring:
    """Bars routers and releases them, and answers who is barred."""

    def __init__(self, known: Known, others: Others) -> None:
        self._known = known
        self._others = others

    def __repr__(self) -> str:
        return f"<barring by {self._known.withholding!r}>"

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        withholding = self._known.withholding
        match heard:
            case o.Linked(router, service):
                if service is None:
                    withholding.gone(router)
                else:
                    withholding.linked(router, now.mono_s)
            case c.Tick():
                withholding.tick(now.mono_s)
            case c.Asked(number, word) if word == PEERS:
                return [c.Answer(number, self._shown(now))]
        if not (withholding.is_changed or isinstance(heard, c.Tick)):
            return []
        deeds = list(self._carry_out()) if withholding.is_changed else []
        if withholding.due_s < inf:
            deeds.append(c.Wake(now.wall_s + max(WAKE_MIN_S, withholding.due_s - now.mono_s)))
        return deeds

    def _carry_out(self) -> Iterator[c.Deed]:
        """Give the places anew, and write down who has lost one."""
        decided = self._known.withholding.take_decided()
        if self._others.overlay is not None:
            self._others.overlay.rearrange()
        for one in decided:
            yield _event(one)

    def _shown(self, now: c.Now) -> dict[str, Any]:
        """Return the partners, those that are barred or suspected first."""
        suspects = self._known.withholding.suspects
        live = {router for topic in self._known.topics.values() for router in topic.t}
        routers = [*suspects, *sorted(live.difference(suspects))]
        rows = [self._row(one, now) for one in routers[:PEERS_SHOWN_MAX]]
        return {"peers": rows, "more": max(0, len(routers) - PEERS_SHOWN_MAX)}

    def _row(self, router: PublicKey, now: c.Now) -> dict[str, Any]:
        """Return the row of one partner: the groups shared with it, those in which it is a live neighbour, the proofs
        that stand against it, and for how many seconds more it is barred."""
        withholding, shared = self._known.withholding, self._known.shared_with(router)
        lost, withheld = withholding.proofs(router, now.mono_s)
        return {
            "router": router.hex(),
            "connected": router in self._others.linked,
            "groups": len(shared),
            "neighbour": sum(router in topic.neighbours for topic in shared),
            "lost": lost,
            "withheld": withheld,
            "barred_s": round(withholding.barred_for_s(router, now.mono_s)),
        }


def _event(one: Barred) -> c.LogEvent:
    """Return the event about a barred router, which names a message of each proof."""
    lost = sum(proof.is_lost for proof in one.proofs)
    fields: dict[str, str | int | bool] = {
        "router": one.router.hex(),
        "lost": lost,
        "withheld": len(one.proofs) - lost,
        "for_s": round(one.for_s),
    }
    ids = tuple(dict.fromkeys(proof.id for proof in one.proofs))
    return c.LogEvent("pubsub_barred", None, WITHHOLDS, fields, messages=ids)
