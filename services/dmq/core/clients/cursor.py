"""The progress of a named consumer, which itself knows of no cursor: its next request acknowledges the last reply.

A consumer that breaks off after a reply gets half as many messages in the next one. A message that alone broke it off
three times is set aside for it, so that one unreadable body does not hold up all others; it is given again when
somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from ..mempool import Mempool, Row

REPLY_MESSAGES_MAX = 100
REPLY_BYTES_MAX = 256 << 10
BREAKS_MAX = 3
MANY = 64
"""Number of waiting messages from which on a reply goes out at once."""
SET_ASIDE_MAX = 1000
"""Most messages that are set aside for one consumer (the oldest are forgotten), and that wait to be given again."""


class Cursor(Struct):
    """The state of one consumer, kept except for `offered` (rows.py). `last`: all up to it are acknowledged or set
    aside.

    `offered` are the numbers in the last reply, `again` those to be given once more, each by itself."""

    last: int = 0
    offered: tuple[int, ...] = ()
    most: int = REPLY_MESSAGES_MAX
    breaks: int = 0
    set_aside: list[int] = field(default_factory=list)
    again: list[int] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<Cursor at {self.last}, {len(self.offered)} offered, {len(self.set_aside)} set aside>"

    def lag(self, mempool: Mempool) -> int:
        """Return how many live messages the consumer has not acknowledged."""
        return len(self.again) + sum(1 for _ in mempool.after(self.last))

    def awaits(self, number: int) -> bool:
        """Whether the consumer has still to acknowledge a live message."""
        return number > self.last or number in self.again

    def has_few(self, mempool: Mempool) -> bool:
        """Whether the next reply would hold so few messages that more may be awaited; that is also if there are
        none."""
        few = min(self.most, MANY)
        if self.again:
            return False
        return mempool.last - self.last < few or len(mempool.page(self.last, self.most, REPLY_BYTES_MAX)) < few

    def requested(self) -> tuple[int, ...]:
        """Handle the consumer's next request; return the numbers that it acknowledges."""
        found, self.offered = self.offered, ()
        if found:
            self.breaks = 0
            self.most = min(2 * self.most, REPLY_MESSAGES_MAX)
            self._pass(found)
        return found

    def reply(self, mempool: Mempool) -> tuple[Row, ...]:
        """Return the messages of the next reply, none if there are none; `offered` then holds their numbers."""
        assert not self.offered, "the last reply is acknowledged or broken off before the next"
        rows = self._once_more(mempool) or mempool.page(self.last, self.most, REPLY_BYTES_MAX)
        self.offered = tuple([row.number for row in rows])
        return rows

    def broke_off(self) -> int | None:
        """Handle the end of the connection after a reply; return the number of a message that is now set aside."""
        offered, self.offered = self.offered, ()
        if not offered:
            return None
        self.most = max(len(offered) // 2, 1)
        self.breaks = self.breaks + 1 if len(offered) == 1 else 0
        if self.breaks < BREAKS_MAX:
            return None
        self.breaks = 0
        self._pass(offered)
        self.set_aside = [*self.set_aside, *offered][-SET_ASIDE_MAX:]
        return offered[0]

    def give_again(self, number: int) -> bool:
        """Offer a message again that was set aside; return False if it was not, or if too many wait for that."""
        if number not in self.set_aside or len(self.again) >= SET_ASIDE_MAX:
            return False
        self.set_aside.remove(number)
        self.again.append(number)
        return True

    def forget(self, numbers: Iterable[int]) -> None:
        """Drop expired messages from those set aside."""
        gone = set(numbers)
        self.set_aside = [one for one in self.set_aside if one not in gone]
        self.again = [one for one in self.again if one not in gone]

    def _once_more(self, mempool: Mempool) -> tuple[Row, ...]:
        """Return the first live message of those to be given again."""
        rows = (mempool.get(number) for number in self.again)
        return tuple([row for row in rows if row is not None][:1])

    def _pass(self, numbers: tuple[int, ...]) -> None:
        """Continue after these numbers."""
        if numbers[0] in self.again:
            self.again.remove(numbers[0])
        else:
            self.last = numbers[-1]
