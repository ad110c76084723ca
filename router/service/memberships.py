"""The groups in which a service takes part: joined as its rules wish, and followed as the home's links change.

A group that is given by its name is known while the home holds its link. What cannot be joined stays a wish: it is
tried again when a command has changed the home's groups (`look`), and every `LOOK_S`. A group whose link is gone is
left, and one whose link is replaced is joined anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

import trio
from msgspec import Struct

from router.core.wire.errors import RouterError
from router.core.wire.grouplink import GroupLink
from router.service import contract as c
from router.service.host import Service
from router.settings import keyring
from router.settings.home import Home

IN_TURN_S = 1.0
"""How long what comes next waits at most for the router's answer to a `Join` or `Leave`."""
LOOK_S = 5.0
"""Seconds between two looks at the links of groups that a service has joined by name, or could not join."""
FOLLOWED_MAX = 1_000
"""Most groups that are followed so; a `Join` of one more is tried once."""


class FollowedGroup(Struct):
    """A group that the rules want to be in. `link`: the one in the home when it was joined; `told`: what the rules have
    heard last; `refusal`: why it was not joined, as the log says."""

    wish: c.Join
    key: c.PublicKey | None = None
    link: GroupLink | None = None
    told: c.Joined | None = None
    refusal: str = ""


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
                self._followed.pop(wish.group, None)
                await self._host.node.leave(one.key or wish.group or self._host.place.key)
        except RouterError as error:
            self._was_refused(wish, one, str(error))
        except Exception as error:
            self._failed(wish, error)

    async def _join(self, wish: c.Join, one: FollowedGroup) -> None:
        one.wish, before = wish, one.key
        if len(self._followed) < FOLLOWED_MAX:
            self._followed[wish.group] = one
            self._follows.set()
        link = await self._link_of(wish.group)
        found = await self._host.node.join(wish.group or self._host.place.key, raw=wish.raw, local=wish.local)
        if before is not None and before != found.key:
            await self._host.node.leave(before)
        one.key, one.link, one.refusal = found.key, link, ""
        if found.name != wish.group:  # given by its key, which does not change
            self._followed.pop(wish.group, None)
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
        while True:
            await self._follows.wait()
            await trio.sleep(LOOK_S)
            await self.look()
            if not self._followed:
                self._follows = trio.Event()

    async def look(self) -> None:
        """Join, leave and join anew as the home's links have changed; return when the router has answered."""
        async with trio.open_nursery() as nursery:
            for one in list(self._followed.values()):
                nursery.start_soon(self._look_at, one)

    async def _look_at(self, one: FollowedGroup) -> None:
        group = one.wish.group
        while group in self._wishes:
            await self._lot.park()
        if self._followed.get(group) is not one:
            return
        if one.key is not None and not one.refusal and one.link == await self._link_of(group):
            return
        if one.key is not None and await trio.to_thread.run_sync(_is_gone, self._host.place.home, group):
            await self._leave_unknown(one, one.key)
        await self.change(one.wish)

    async def _leave_unknown(self, one: FollowedGroup, key: c.PublicKey) -> None:
        """Leave a group whose link was removed from the home."""
        one.key = one.link = None
        try:
            await self._host.node.leave(key)
        except RouterError as error:
            self._host.log.warning("%s: %s was not left: %s", self._host, one.wish.group, error)

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
