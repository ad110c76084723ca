"""How the routers that are asked for messages answer: how many questions each is asked at once, and which is asked no
more (R-C35).

A router answers as many PULLs as its limits in bytes and the window of the link allow, and the others not at all. So
when it leaves some unanswered while it answers others, it is asked fewer at once: as many as it has answered. Each
answer allows one more.
"""

from __future__ import annotations

from collections.abc import Container

from msgspec import Struct

from router.core.wire.crypto import PublicKey


class _Answerer(Struct):
    """A router: how many questions may be open with it; how many it has answered, and how many of these when it was
    last asked too much; and how many are without an answer, less those answered since."""

    most: int
    answered: int = 0
    answered_before: int = 0
    unanswered: int = 0
    has_lost: bool = False
    is_busy: bool = False


class Answerers:
    """All routers that are asked. `most`: questions open with one; `unanswered_max`: when one counts as silent."""

    def __init__(self, most: int, unanswered_max: int) -> None:
        self._most = most
        self._unanswered_max = unanswered_max
        self._of: dict[PublicKey, _Answerer] = {}

    def __repr__(self) -> str:
        return f"<{len(self._of)} routers are asked for messages>"

    def most(self, router: PublicKey) -> int:
        """Return how many questions may be open with a router."""
        return self._of[router].most if router in self._of else self._most

    def count(self, router: PublicKey) -> int:
        """Return how many questions a router has answered."""
        return self._of[router].answered if router in self._of else 0

    def answered(self, router: PublicKey) -> None:
        """Record an answer of a router."""
        one = self._one(router)
        one.answered += 1
        one.unanswered = max(0, one.unanswered - 1)
        one.most = min(self._most, one.most + 1)

    def asked_too_much(self, router: PublicKey, answered: int) -> bool:
        """Record that a question has had no answer in time; return whether the router has answered others meanwhile.
        `answered`: the count when it was asked."""
        one = self._one(router)
        one.has_lost = True
        if one.answered > answered:
            one.is_busy = True
            return True
        one.unanswered += 1
        return False

    def take_silent(self) -> list[PublicKey]:
        """Return and forget the routers that count as silent; have the others asked as many questions at once as they
        answer, as far as they answer any."""
        for one in self._of.values():
            if one.has_lost:
                one.most = max(1, min(self._most, one.answered - one.answered_before)) if one.is_busy else self._most
                one.answered_before, one.has_lost, one.is_busy = one.answered, False, False
        silent = [router for router, one in self._of.items() if one.unanswered >= self._unanswered_max]
        for router in silent:
            del self._of[router]
        return silent

    def forget_others(self, routers: Container[PublicKey]) -> None:
        """Forget all routers but these."""
        for router in [one for one in self._of if one not in routers]:
            del self._of[router]

    def _one(self, router: PublicKey) -> _Answerer:
        return self._of.setdefault(router, _Answerer(self._most))
