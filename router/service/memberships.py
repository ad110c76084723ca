"""The groups in which a service takes part: joined as its rules wish, and followed as the home's links change.

A group that is given by its name is known while the home holds its link. What cannot be joined stays a wish: it is
tried again when a command has changed the home's groups (`look`) or its link is another one, else after pauses that
grow to `AGAIN_S_MAX`. A group whose link is gone is left, and one whose link is replaced is joined anew. A link may be
removed or replaced while the node is stopped, too: then what an earlier run has joined by that name is left, which the
service's state still knows. What was joined by its key stays.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import inf
from random import random

import trio
from msgspec import Struct

from router.core.service.back_off import BackOff
from router.core.wire.errors import RouterError
from router.core.wire.grouplink import GroupLink
from router.service import contract as c
from router.service.host import Service
from router.service.named_groups import NamedGroups
from router.settings import keyring
from router.settings.home import Home

IN_TURN_S = 1.0
"""How long what comes next waits at most for the router's answer to a `Join` or `Leave`."""
LOOK_S = 5.0
"""Seconds between two looks at the links of groups that a service has joined by name, or could not join."""
AGAIN_S_MAX = 60.0
"""The longest pause between two attempts to join a group that was refused; they begin with `LOOK_S`."""
FOLLOWED_MAX = 1_000
"""Most groups that are followed so; a `Join` of one more is tried once."""


class FollowedGroup(Struct):
    """A group that the rules want to be in. `link`: the one in the home when it was joined; `told`: what the rules have
    heard last; `refusal`: why it was not joined, as the log says; `tried`: the link with which it was tried last;
    `failures`, `again_s`: how often in a row, and from when on it is tried again without a reason."""

    wish: c.Join
    key: c.PublicKey | None = None
    link: GroupLink | None = None
    told: c.Joined | None = None
    refusal: str = ""
    tried: GroupLink | None = None
    failures: int = 0
    again_s: float = -inf

    def fail(self, now_s: float) -> None:
        """Count an attempt that has failed."""
        self.failures += 1
        self.again_s = now_s + BackOff(LOOK_S, AGAIN_S_MAX).pause_s(self.failures, random())


class Memberships:
    """Joins and leaves groups for a host. `hear` passes what becomes of a `Join` to the rules, `failed` gets what went
    wrong with a deed other than a refusal."""

    def __init__(
        self, host: Service, hear: Callable[[c.Heard], None], failed: Callable[[c.Deed, Exception], None]
    ) -> None:
        self._host = host
        self._hear = hear
        self._failed = failed
        self._wishes: dict[str, c.Join | c.Leave | None] = {}  # by group: what follows when the router has answered
        self._followed: dict[str, FollowedGroup] = {}
        self._lot = trio.lowlevel.ParkingLot()
        self._follows = trio.Event()
        self._named = NamedGroups(host)
        self._by_key = set[bytes]()  # the groups that this run has joined by their keys; the router limits them
        self._not_left = set[bytes]()  # those of removed links that the log says are not left

    def __repr__(self) -> str:
        return f"<memberships of {self._host}: {len(self._followed)} followed>"

    # -- the rules' wishes ---------------------------------------------------------------------------------

    async def change_in_turn(self, wish: c.Join | c.Leave) -> None:
        """Join or leave a group before what comes next, unless the router is silent about this group or an earlier
        one."""
        if (known := self._followed.get(wish.group)) is not None:
            known.told = None
        done, is_alone = trio.Event(), not self._wishes
        self._host.nursery.start_soon(self._change_and_say, wish, done)
        if is_alone:
            with trio.move_on_after(IN_TURN_S):
                await done.wait()

    async def _change_and_say(self, wish: c.Join | c.Leave, done: trio.Event) -> None:
        await self.change(wish)
        done.set()

    async def change(self, wish: c.Join | c.Leave) -> None:
        """Join or leave a group, while others are joined and left; of several wishes about one group the last holds."""
        group = wish.group
        if group in self._wishes:
            self._wishes[group] = wish
            return
        next_wish: c.Join | c.Leave | None = wish
        while next_wish is not None:
            self._wishes[group] = None
            await self._change(next_wish)
            next_wish = self._wishes.pop(group)
        self._lot.unpark_all()

    async def _change(self, wish: c.Join | c.Leave) -> None:
        one = self._followed.get(wish.group) or FollowedGroup(wish if isinstance(wish, c.Join) else c.Join(wish.group))
        try:
            if isinstance(wish, c.Join):
                await self._join(wish, one)
            else:
                await self._leave(wish.group, one)
        except RouterError as error:
            one.fail(trio.current_time())
            self._was_refused(wish, one, str(error))
        except Exception as error:
            one.fail(trio.current_time())
            self._failed(wish, error)

    async def _leave(self, group: str, one: FollowedGroup) -> None:
        self._followed.pop(group, None)
        own = self._host.place.key
        with suppress(ValueError):  # a name
            self._by_key.discard(bytes.fromhex(group) or own.public)
        await self._host.node.leave(one.key or self._named.get(group) or group or own)
        await self._named.drop(group)

    async def _join(self, wish: c.Join, one: FollowedGroup) -> None:
        one.wish, before = wish, one.key or self._named.get(wish.group)
        if len(self._followed) < FOLLOWED_MAX:
            self._followed[wish.group] = one
            self._follows.set()
        link = one.tried = await self._link_of(wish.group)
        found = await self._host.node.join(wish.group or self._host.place.key, raw=wish.raw, local=wish.local)
        if before is not None and before != found.key and not self._is_in_otherwise(before, wish.group):
            await self._host.node.leave(before)
        one.key, one.link, one.refusal, one.failures = found.key, link, "", 0
        if found.name != wish.group:  # given by its key, which does not change
            self._followed.pop(wish.group, None)
            self._by_key.add(found.key)
            await self._named.drop_key(found.key)
        elif found.key not in self._by_key:
            await self._named.put(wish.group, found.key)
        self._tell(one, c.Joined(wish.tag, found.key, found.may_publish))

    def _was_refused(self, wish: c.Join | c.Leave, one: FollowedGroup, said: str) -> None:
        if said != one.refusal:
            level = logging.INFO if isinstance(wish, c.Join) and wish.tag else logging.WARNING
            self._host.log.log(level, "%s: %s was not done: %s", self._host, type(wish).__name__, said)
        one.refusal = said
        if isinstance(wish, c.Join):
            self._tell(one, c.Joined(wish.tag, error=said))

    def _tell(self, one: FollowedGroup, joined: c.Joined) -> None:
        """Let the rules hear what became of a `Join` that has a tag, if they have not heard the same."""
        if one.wish.tag and joined != one.told:
            one.told = joined
            self._hear(joined)

    # -- the home's links ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Look at the home's links now and then, while there is a group to be followed."""
        if self._named:
            self._follows.set()
        while True:
            await self._follows.wait()
            await trio.sleep(LOOK_S)
            await self.look(is_asked=False)
            if not self._followed and not self._named:
                self._follows = trio.Event()

    async def look(self, *, is_asked: bool = True) -> None:
        """Join, leave and join anew as the home's links have changed; return when the router has answered. `is_asked`:
        whether what failed is tried again at once."""
        async with trio.open_nursery() as nursery:
            for one in list(self._followed.values()):
                nursery.start_soon(self._look_at, one, is_asked)
        await self._leave_removed()

    async def _look_at(self, one: FollowedGroup, is_asked: bool) -> None:
        group = one.wish.group
        while group in self._wishes:
            await self._lot.park()
        if self._followed.get(group) is not one:
            return
        link = await self._link_of(group)
        if one.key is not None and not one.refusal and one.link == link:
            return
        if not is_asked and one.failures and one.tried == link and trio.current_time() < one.again_s:
            return
        if one.key is not None and await trio.to_thread.run_sync(_is_gone, self._host.place.home, group):
            key, one.key, one.link = one.key, None, None
            await self._leave_unknown(group, key)
        await self.change(one.wish)

    async def _leave_unknown(self, name: str, key: c.PublicKey) -> None:
        """Leave a group whose link was removed from the home, unless this run is in it for another reason."""
        try:
            if not self._is_in_otherwise(key, name):
                await self._host.node.leave(key)
        except RouterError as error:
            if key not in self._not_left:
                self._host.log.warning("%s: %s was not left: %s", self._host, name, error)
            self._not_left.add(key)
            return
        self._not_left.discard(key)
        await self._named.drop(name)

    async def _leave_removed(self) -> None:
        """Leave what was joined by a name that stands for nothing now, and that this run has not joined. A group that
        the home holds by another name stays, and goes with that one."""
        home = self._host.place.home
        names = [name for name in self._named if (one := self._followed.get(name)) is None or one.key is None]
        try:
            gone = await trio.to_thread.run_sync(lambda: [name for name in names if _is_gone(home, name)])
            held = await trio.to_thread.run_sync(keyring.groups, home) if gone else {}
        except RouterError as error:
            self._host.log.warning("%s: whether groups were removed is not known: %s", self._host, error)
            return
        by_key = {link.group: name for name, link in held.items()}
        for name in gone:
            if name in self._wishes or (key := self._named.get(name)) is None:
                continue
            if (other := by_key.get(key)) is not None:
                await self._named.rename(name, other)
            else:
                await self._leave_unknown(name, key)

    def _is_in_otherwise(self, key: c.PublicKey, name: str) -> bool:
        """Whether this run wants to be in the group for another reason than that name."""
        others = [one for group, one in self._followed.items() if group != name]
        return key in self._by_key or any(one.key == key or one.wish.group.lower() == key.hex() for one in others)

    async def _link_of(self, group: str) -> GroupLink | None:
        """Return the home's link of the group; None if it has none, or it cannot be read."""
        home = self._host.place.home
        return await trio.to_thread.run_sync(partial(_link, home, group)) if group else None


def _link(home: Home, group: str) -> GroupLink | None:
    try:
        return keyring.find(home, group)[1]
    except keyring.KeyringError:
        return None


def _is_gone(home: Home, group: str) -> bool:
    return not keyring.holds_group(home, group)
