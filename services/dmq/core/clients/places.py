"""The choice of the client that gives way at a door without a free place.

The user with most clients there gives way, so no program, forgetful or hostile, takes the places of another user. Of
that user's clients it is the one idle for longest. A client of the newcomer's own user, and the only one of any user,
gives way only if it is idle: many users with a client each take no place in which somebody waits for messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from .connection import ClientSession, Standing


def who_gives_way(clients: Collection[ClientSession], user: int | None, now_s: float) -> ClientSession | None:
    """Return the client that gives way to a newcomer of this user; None if none does, and the newcomer is refused."""
    held = Counter(one.user for one in clients)
    most = max(held.values(), default=0)
    is_own = held[user] == most
    busiest = Standing.IDLE if is_own or most == 1 else Standing.BUSY
    candidates = [
        (standing, one.active_s, at, one)
        for at, one in enumerate(clients)
        if (one.user == user if is_own else held[one.user] == most) and (standing := one.standing(now_s)) <= busiest
    ]
    return min(candidates)[-1] if candidates else None
