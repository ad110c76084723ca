"""One router and its links as values: messages in, effects out, cycle by cycle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from samples.core import ROLES

from rigs.plain_store import Disk, PlainStore
from router.core.link.session import MessageRun
from router.core.log.events import Accepted, Event, Outward, RouterChange, Turned
from router.core.log.life import Life
from router.core.neighbours.directory import Directory, Neighbour, ServiceFacts
from router.core.router import Router
from router.core.routing.effects import (
    Close,
    DialNeighbour,
    Effect,
    Fetch,
    LookAtQueue,
    LookUpPulled,
    LookUpPulls,
    SendItem,
    SendOwn,
    SendParcel,
    Settle,
)
from router.core.routing.intake import Refusal, read_messages
from router.core.routing.job import Job
from router.core.routing.limits import CoreLimits
from router.core.wire import link_items as words
from router.core.wire.admin import KNOWN_TOLD
from router.core.wire.codec import frame, split_frames
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.now import Now
from router.core.wire.run_claim import RunClaim
from router.core.wire.succession import Former
from router.disk.limits import StoreLimits
from router.node.verifier_process import verdicts

WALL_S = 1_800_000_000
ME = SigningKey(b"r" * 32)


class OneRouter:
    """One router on a store in memory; with `disk` it restarts on that. `cycle` commits and carries out; the effects
    stay in `done` until a test reads them."""

    def __init__(
        self,
        *neighbours: Neighbour,
        limits: CoreLimits | None = None,
        strangers: bool = False,
        disk: Disk | None = None,
        locals: Iterable[bytes] = (),
        seconds: float = 0.0,
        services: Mapping[bytes, str] | None = None,
        key: SigningKey = ME,
        life: Life | None = None,
        rotated: Mapping[bytes, bytes] | None = None,
    ) -> None:
        of_node = {key: ServiceFacts(name, role=ROLES.get(name)) for key, name in (services or {}).items()}
        kept = frozenset((*locals, *of_node))
        here, rotated = {*kept, *(rotated or ())}, rotated or {}
        directory = Directory(
            key.public, strangers, locals=here, configured_locals=kept, services=of_node, rotated=rotated
        )
        directory.replace_neighbours(neighbours)
        self.disk = disk or Disk()
        self.seconds = seconds
        self.ahead_s = self.later_s = 0.0
        self.store = PlainStore(self.disk, StoreLimits(), b"b" * 16)
        recovered = self.store.recover(key.public)
        recovered.life = life or recovered.life
        self.router = Router(key, directory, limits or CoreLimits(), recovered, self.now())
        self.jobs: list[Job] = []
        self.done: list[Effect] = []
        self.events: list[Event] = []
        self.numbers: dict[int, int] = {}

    def now(self) -> Now:
        """Return the router's time. `ahead_s`: how far an untrusted clock is ahead of the time that the router uses;
        `later_s`: how much later it was before a step back that may be undone."""
        ns, ahead_ns = int(self.seconds * 1e9), int(self.ahead_s * 1e9)
        return Now(
            WALL_S * 1_000_000_000 + ns + max(0, ahead_ns), 1_000_000_000 + ns, ahead_ns, int(self.later_s * 1e9)
        )

    def link(
        self,
        key: bytes,
        *,
        role: str = "app",
        owner: bool = True,
        durable: bool = True,
        messages: int = 8,
        size: int = 4096,
        outcome: bool = False,
        dialled: bool = False,
        place: str = "",
        ip: str = "",
        offset_s: float | None = 0.0,
        runs: bool = False,
        hears_known: bool = False,
        frame_bytes: int = 1 << 20,
        pubsub: PublicKey | None = None,
        discovery: PublicKey | None = None,
        run: words.Run | None = None,
        was: tuple[Former, ...] = (),
        claim: RunClaim | None = None,
    ) -> int:
        """Open a link and return its number. `offset_s`: how far the clock at its other end is ahead; None: not
        compared. `runs`: it takes outcomes of several messages; `hears_known`: it wants to hear what was known here."""
        number = len(self.numbers) + 1
        self.numbers[number] = 0
        features = (("outcome",) if outcome else ()) + (("outcome-runs",) if runs else ())
        features += (KNOWN_TOLD,) if hears_known else ()
        hello = words.Hello(
            (1,),
            role,
            bytes(8),
            durable,
            frame_bytes,
            messages,
            size,
            features,
            bytes(16),
            pubsub=pubsub,
            discovery=discovery,
            run=run,
            was=was,
            claim=claim,
        )
        link = self.router.link_up(
            number, key, owner and role == "app", hello, self.now(), dialled=dialled, place=place, ip=ip
        )
        if link is not None and offset_s is not None:
            link.offset_ns = int(offset_s * 1e9)
        self.cycle()
        return number

    def bring(self, number: int, *wires: bytes) -> Job:
        """Bring one read of a link, examined and verified; `cycle` decides it."""
        job = self._examine(number, wires)
        assert job is not None
        job.valid = verdicts(job.arrived.data, job.positions, 0)
        self.jobs.append(job)
        return job

    def bring_unheard(self, number: int, *wires: bytes) -> None:
        """Bring a read of a link that the router considers gone."""
        assert self._examine(number, wires) is None

    def _examine(self, number: int, wires: Sequence[bytes]) -> Job | None:
        data = b"".join(map(frame, wires))
        spans, _ = split_frames(data)
        first_k = self.numbers[number] + 1
        self.numbers[number] += len(wires)
        return self.router.examine(read_messages(number, MessageRun(first_k, data, spans)), self.now())

    def cycle(self) -> None:
        jobs, self.jobs = self.jobs, []
        if jobs:
            known = self.store.known([one for job in jobs for one in job.to_look_up()])
            self.router.decide(jobs, known, self.now())
        decision = self.router.take(self.now())
        if decision.changes:
            applied = self.store.apply(decision.changes, self.now().wall_s)
            self.store.commit()
            self.router.released(applied.released)
            self.router.forgot(applied.forgotten)
            self.events += applied.logged.events if applied.logged else []
        self._carry_out(decision.effects)

    def _carry_out(self, effects: list[Effect]) -> None:
        effects = [*effects]
        for effect in effects:  # the list grows meanwhile
            self.done.append(effect)
            if isinstance(effect, Fetch):
                owed, more = self.store.fetch(effect.recipient, effect.position, effect.messages, effect.bytes)
                self.router.fetched(effect.recipient, owed, more, self.now())
            elif isinstance(effect, LookAtQueue):
                self.router.stranded.look(effect, self.store)
            elif isinstance(effect, LookUpPulled):
                self.router.pulls.looked_up(effect, self.store.message(effect.message), self.now())
            elif isinstance(effect, LookUpPulls):
                known = self.store.records.known(self.router.pulls.look_up(effect))
                self.router.pulls.asked(effect, known, self.now(), self.store)
            effects += self.router.take_effects()

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and tick."""
        self.seconds += seconds
        self.router.expire(self.store.due(self.now().wall_s), self.now())
        self.router.tick(self.now())
        self.cycle()

    def clear(self) -> None:
        """Carry out the pending purges of queues."""
        while clear := self.router.purges.next():
            owed, _ = self.store.fetch(clear.recipient, 0, 1 << 30, 1 << 40, clear.group, clear.before)
            self.router.drop(clear.recipient, owed, self.now())
            self.router.purges.done(clear)
            self.cycle()

    # -- effects, each returned once ------------------------------------------------------------------------------

    def _gone(self, kind: type[Effect]) -> list[Effect]:
        found = [one for one in self.done if isinstance(one, kind)]
        if found:
            self.done = [one for one in self.done if not isinstance(one, kind)]
        return found

    def handed(self, number: int) -> list[bytes]:
        """Return the messages written to the link, as its other end sees them."""
        found = []
        for one in self._gone(SendParcel):
            assert isinstance(one, SendParcel)
            if one.link == number:
                data = bytes(one.parcel.frames(one.start, one.stop, local=one.local))
                found += [data[start:end] for _, start, end in split_frames(data)[0]]
            else:
                self.done.append(one)
        return found

    def settled(self) -> dict[int, tuple[int, list[Refusal]]]:
        """Return by link up to which message it was settled, and which messages were refused."""
        found: dict[int, tuple[int, list[Refusal]]] = {}
        for one in self._gone(Settle):
            assert isinstance(one, Settle)
            found[one.link] = one.n, found.get(one.link, (0, []))[1] + one.refusals
        return found

    def told(self, number: int) -> list[bytes]:
        return [one.wire for one in self._gone(SendOwn) if isinstance(one, SendOwn) and one.link == number]

    def said(self, number: int) -> list[words.Item]:
        """Return the items sent, without the greeting of an app that gets nothing again."""
        found = [one.item for one in self._gone(SendItem) if isinstance(one, SendItem) and one.link == number]
        return [item for item in found if item != words.Redelivered(0)]

    def closed(self) -> list[tuple[int, str]]:
        return [(one.link, one.reason.word) for one in self._gone(Close) if isinstance(one, Close)]

    def dialled(self) -> list[bytes]:
        return [one.key for one in self._gone(DialNeighbour) if isinstance(one, DialNeighbour)]

    def outward(self) -> list[tuple[str, tuple[tuple[int, int], ...]]]:
        return [(one.event, one.ranges) for one in self.events if isinstance(one, Outward)]

    def accepted(self) -> list[tuple[int, int, tuple[bytes, ...]]]:
        """Return (first arrival, count, recipients) of each accepted event."""
        return [(one.first, len(one.ids) // 32, one.recipients) for one in self.events if isinstance(one, Accepted)]

    def turned(self) -> list[tuple[str, int, int]]:
        """Return the messages turned away: those logged, then those still being summed."""
        found = [*self.events, *self.router.rejections.waiting(self.now())]
        return [(one.event, one.reason, one.count) for one in found if isinstance(one, Turned)]

    def states(self) -> list[str]:
        return [one.event for one in self.events if isinstance(one, RouterChange)]
