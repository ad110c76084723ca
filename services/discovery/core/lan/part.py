"""Discovery's part on local networks: where the operator allows this node to be heard, and which routers are near.

Networks allowed by `router lan on` are kept in the service's state, in addition to those allowed by its settings, and
count at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from router.core.wire.advert import Advertisement
from router.core.wire.crypto import PublicKey
from router.core.wire.reasons import Reason
from router.service import contract as c
from router.service.roles.discovery import Interface, Interfaces
from services.discovery.core.known import SERVICE, Known
from services.discovery.core.lan.lan import Lan
from services.discovery.core.lan.networks import ALLOWED, EVERYWHERE, OFF, Permit, is_local, network_of
from services.discovery.core.messages import Message, Named
from services.discovery.core.refusals import notes
from services.discovery.settings import Settings

DOOR = "lan"
GROUPS = "multicast://239.255.85.80,[ff12::5550:5359]:4100"
HERE = "here"
KEPT = b"lan"
NOTED_S = 60.0
NETWORKS_MAX = 1_000
NETWORK_CHARS_MAX = 300
"""Most characters of an id, an interface's name (at most 15 bytes) and a prefix."""
KEPT_BYTES_MAX = 1 << 20


class OnLan:
    """Answers `router lan`, and lets `Lan` send and receive where that is allowed."""

    def __init__(self, setup: c.Setup, known: Known) -> None:
        self._settings: Settings = setup.settings
        self._kept = setup.kept
        self._chance = setup.chance
        self._known = known
        self._lan: Lan | None = None
        self._interfaces: tuple[Interface, ...] = ()
        self._asked_for: set[int] = set()  # interfaces whose networks are to be allowed once they have a name
        self._near: dict[PublicKey, Advertisement] = {}
        self._early: dict[PublicKey, str] = {}  # names that came before groups were agreed on, of routers nearby
        self._began = False
        self._note_s = 0.0

    def __repr__(self) -> str:
        return f"<{self._lan!r}>"

    def doors(self) -> dict[str, str]:
        return {DOOR: GROUPS}

    def admits(self, came: c.Came, mono_s: float) -> bool:
        """Whether a datagram is worth handling."""
        return self._lan is not None and self._lan.admits(came, mono_s)

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        deeds: list[c.Deed] = []
        match heard:
            case c.Started(router):
                self._lan = Lan(router, DOOR, self._chance, self._permit(), self._known.agreed)
                heard = Interfaces(DOOR, self._interfaces)
            case Interfaces(interfaces=interfaces):
                deeds += self._are(interfaces, now)
            case c.Asked(word="lan"):
                deeds += self._asked(heard, now)
        if self._lan is None:
            return deeds
        deeds += self._lan.hear(heard, now)
        self._known.on_lan = self._lan.permit.mode != OFF
        near = {one.key: one.advert for one in self._lan.neighbours if one.is_here}
        if near != self._near:
            self._near = self._known.nearby = near
            self._early = {key: name for key, name in self._early.items() if key in near}
        for key in [one for one in self._early if one in self._known.agreed]:
            deeds += self._lan.reports.is_named(key, self._early.pop(key), now)
        return [*deeds, *self._notes(now)]

    def read(self, message: c.Message, said: Message, now: c.Now) -> list[c.Deed]:
        """Take the name that a router nearby says of itself, as soon as it shares groups with this node: the two do not
        learn at once that they do."""
        assert isinstance(said, Named)
        router = message.via
        near = None if router is None else self._known.nearby.get(router)
        if self._lan is None or near is None or near.services.get(SERVICE) != message.source:
            return [c.Refuse(Reason.NOT_AUTHORISED, "only the discovery services of routers nearby say their names")]
        if near.router not in self._known.agreed:
            self._early[near.router] = said.name
            return []
        self._early.pop(near.router, None)
        return self._lan.reports.is_named(near.router, said.name, now)

    # -- where ---------------------------------------------------------------------------------------------

    def _state(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads(self._kept.get(KEPT, b"{}"))
        return found

    def _permit(self, state: Mapping[str, Any] | None = None) -> Permit:
        """Return where this node may be heard: the last order counts, and all networks that were allowed."""
        kept = self._state() if state is None else state
        written = ALLOWED if self._settings.lan == HERE else self._settings.lan
        networks = frozenset(one.partition(" ")[0] for one in (*self._settings.networks, *kept.get("networks", ())))
        mode = OFF if written == OFF else kept.get("mode", written)
        return Permit(mode, networks, self._settings.groups, self._settings.lan_port)

    def _are(self, interfaces: tuple[Interface, ...], now: c.Now) -> list[c.Deed]:
        self._interfaces = interfaces
        if not self._began and self._settings.lan == HERE:
            self._asked_for = {one.index for one in interfaces if is_local(one)}
        self._began = True
        return self._allow(now)

    def _allow(self, now: c.Now) -> list[c.Deed]:
        """Allow the requested networks as soon as they have a name."""
        self._asked_for &= {one.index for one in self._interfaces if is_local(one)}
        found = {one.index: network_of(one) for one in self._interfaces if one.index in self._asked_for}
        named = [f"{one.id} {one.name}" for one in found.values() if one is not None]
        self._asked_for -= {index for index, one in found.items() if one is not None}
        return self._keep({"mode": ALLOWED}, named, now) if named else []

    def _keep(self, said: Mapping[str, Any], networks: list[str], now: c.Now) -> list[c.Deed]:
        before = self._state()
        known = {one.partition(" ")[0]: one for one in (*before.get("networks", ()), *networks)}
        state = {**before, **said, "networks": [*known.values()][-NETWORKS_MAX:]}
        keep = c.Put(KEPT, json.dumps(state).encode())
        return [keep, *(self._lan.hear(self._permit(state), now) if self._lan is not None else ())]

    # -- asked ---------------------------------------------------------------------------------------------

    def _asked(self, asked: c.Asked, now: c.Now) -> list[c.Deed]:
        if self._lan is None:
            return []
        if asked.argument != "list" and self._settings.lan == OFF:
            said = 'router.toml says lan = "off" under [services.discovery]; remove that line and start the node again'
            return [c.Answer(asked.number, {"error": said})]
        deeds: list[c.Deed] = []
        if asked.argument == "on":
            self._asked_for = {one.index for one in self._interfaces if is_local(one)}
            deeds += self._keep({"mode": ALLOWED}, [], now)
            deeds += self._allow(now)
        elif asked.argument in (EVERYWHERE, OFF):
            self._asked_for = set()
            deeds += self._keep({"mode": asked.argument}, [], now)
        elif asked.argument != "list":
            return [c.Answer(asked.number, {"error": f"`router lan` is asked on, off or list, not {asked.argument}"})]
        lan = self._lan
        answer = {
            "mode": lan.permit.mode,
            "problem": lan.problem,
            "full": lan.neighbours.crowd().why_full(len(lan.waiting)),
            "networks": lan.listed(),
        }
        return [*deeds, c.Answer(asked.number, answer)]

    # -- what did not count --------------------------------------------------------------------------------

    def _notes(self, now: c.Now) -> list[c.Deed]:
        """Write once a minute how many datagrams were refused, by their senders' networks and reason."""
        assert self._lan is not None
        if not len(self._lan.turned_away) or now.mono_s < self._note_s:
            return []
        self._note_s = now.mono_s + NOTED_S
        return notes(self._lan.turned_away)
