"""One peer of a pool: what it was asked for and sent, whether it is present, and what did not reach it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from math import inf

from msgspec import Struct, field

from router.core.link.allowance import Allowance
from router.core.wire.crypto import PublicKey
from router.core.wire.reasons import Reason
from router.core.wire.text import counted
from router.service import contract as c
from services.capd import reasons

from . import between_pools as b
from .messages import encode_message
from .priority import LIFE_S

CATCH_UP_S = 60
"""Seconds between two questions to a peer for what it has taken; also the lifetime of most messages to it."""
PRESENT_S = 150.0
"""Seconds of silence after which a peer counts as away, and nothing is announced to it."""
UNITS_PER_S, UNITS_BURST = 2_000.0, 40_000.0
"""The allowance of one peer, in the units of Nexa's neighbours. A message that is taken costs nothing; a secret costs
one unit if it ends something, or has done so before."""
NO_ROUTE_S = 10.0
"""Seconds after which a question or secrets are sent again to a peer to which no route led."""
TOLD_MAX = 1024
"""Most messages with secrets to one peer whose contents are remembered until their outcome is known."""
TAG = "peer "
_SILENT = (
    "its node is away, its pool does not run, or its settings do not name this one in `peers`, which `router status` "
    "there counts as capd:not-a-peer"
)
NOTHING_HEARD = f"nothing has come from it yet: {_SILENT}"
GROWN_SILENT = f"nothing has come from it for {{:.0f}} s: {_SILENT}"
_REMEDIES = {
    reasons.NOT_A_PEER: "it does not name this pool in its `peers`; `router capd address` here prints what to name",
    Reason.NO_ROUTE: "no route leads there; connect both nodes: `router peer add` of the other's link",
    Reason.NOT_AUTHORISED: "its node does not let this pool send to it; its node.services_public must name the pool",
}


class Peer(Struct, eq=False):
    """Another pool. `cursor`: the number up to which it has listed what it holds; `has_more`: whether it has said that
    there are greater ones."""

    key: PublicKey
    allowance: Allowance = field(default_factory=lambda: Allowance(UNITS_PER_S, UNITS_BURST))
    cursor: int = 0
    has_more: bool = False
    problem: str = ""
    """The reason why the last question did not reach it."""
    secrets: deque[bytes] = field(default_factory=deque)
    secrets_since_s: float = -inf
    """`secrets` are still to be sent to it; `secrets_since_s` is when sending them began."""
    asks_secrets_again: bool = False
    """Whether it asked for all secrets again while they were being sent."""
    told: dict[str, tuple[bytes, ...]] = field(default_factory=dict)
    """The secrets in each message whose outcome is not known yet, by the message's tag."""
    untold: dict[bytes, None] = field(default_factory=dict)
    untold_at_s: float = -inf
    """`untold` are secrets that did not reach it since no route led there; `untold_at_s` is when they are sent
    again."""
    ask_at_s: float = -inf
    heard_s: float = -inf
    messages: int = 0
    wants: dict[int, tuple[tuple[bytes, ...], float]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def is_present(self, now_s: float) -> bool:
        return now_s - self.heard_s < PRESENT_S

    def say(self, value: b.BetweenPools, ttl_s: int = CATCH_UP_S, tag: str = "") -> c.Send:
        return c.Send(self.key, encode_message(value), ttl_s, tag=tag)

    def trouble(self, now_s: float) -> str:
        """Return why the peer counts as away, or why secrets did not reach it, and when that is tried again; "" if all
        is well."""
        if not self.is_present(now_s):
            silent = NOTHING_HEARD if self.heard_s == -inf else GROWN_SILENT.format(now_s - self.heard_s)
            return _tried_again(self.problem or silent, self.ask_at_s - now_s)
        if not self.untold:
            return ""
        said = f"{counted(len(self.untold), 'secret')} did not get through, {_said(Reason.NO_ROUTE)}"
        return _tried_again(said, self.untold_at_s - now_s)

    def tell(self, secrets: Sequence[bytes]) -> Iterator[c.Send]:
        """Send secrets to the peer; the outcome of each message is reported under its tag."""
        for at in range(0, len(secrets), b.SECRETS_MAX):
            some = tuple(secrets[at : at + b.SECRETS_MAX])
            self.messages += 1
            tag = f"{TAG}{self.key.hex()} {self.messages}"
            self.told[tag] = some
            if len(self.told) > TOLD_MAX:
                del self.told[next(iter(self.told))]
            yield self.say(b.Secrets(some), LIFE_S, tag)

    def tell_more(self, most: int) -> Iterator[c.Send]:
        """Send the next secrets that the peer lacks, at most `most`."""
        if self.secrets:
            yield from self.tell([self.secrets.popleft() for _ in range(min(most, len(self.secrets)))])

    def came_through(self, passed: c.Sent | c.HopOutcome, now_s: float) -> None:
        """Record the outcome of a question or of secrets; schedule what no route led to for another attempt soon."""
        reason = passed.refused if isinstance(passed, c.Sent) else passed.reason
        if isinstance(passed, c.Sent) and reason is None:
            return  # its router has accepted it
        if passed.tag != TAG + self.key.hex():
            secrets = self.told.pop(passed.tag, ())
            if reason is Reason.NO_ROUTE and secrets:
                self.untold_at_s = now_s + NO_ROUTE_S
                self.untold.update(dict.fromkeys(secrets))
        elif reason is not None:
            self.problem = _said(reason)
            if reason is Reason.NO_ROUTE:
                self.ask_at_s = min(self.ask_at_s, now_s + NO_ROUTE_S)


def _said(reason: Reason) -> str:
    return f"{reason.word}: {_REMEDIES.get(reason, reason.clause)}"


def _tried_again(said: str, in_s: float) -> str:
    return f"{said}; tried again in {max(0.0, in_s):.0f} s"
