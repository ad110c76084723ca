"""The number of messages in a queue that an app may see twice, of which it is warned before they come again ([11,
n])."""

from __future__ import annotations

from msgspec import Struct


class Repeats(Struct):
    """Counts the messages that were handed to an earlier link and not settled; they are the oldest of their queue.

    `ahead`: those that the present link has not reached. `passed`: those that it passed over because they seem to be
    expired, or because their stream was held back; they come after newer ones if the clock turns out to be wrong, or
    once the stream goes on. `is_known` False: the node has started again, so all that is known is that at most one
    window of the queue was handed out before. `is_disordered`: more of it may have been (`Disorder`). Counting one too
    many is harmless.
    """

    ahead: int = 0
    passed: int = 0
    is_known: bool = True
    is_disordered: bool = False

    def recovered(self, owed: int) -> None:
        """Begin with the messages that a queue holds after a restart."""
        self.ahead, self.is_known = owed, False

    def recovered_out_of_order(self) -> None:
        """Take in, after `recovered`, that each message of the queue may have been handed out before."""
        self.is_known = self.is_disordered = True

    def begin(self, owed: int, window: int) -> int:
        """Start again with the oldest message; return how many of the messages to come may be repeated."""
        if not self.is_known:
            self.ahead, self.is_known = min(self.ahead, window), True
        self.ahead, self.passed = min(self.ahead + self.passed, owed), 0
        return self.ahead

    def handed(self, count: int) -> None:
        """Note that the next messages went to the present link."""
        self.ahead -= min(self.ahead, count)

    def pass_over(self, count: int) -> None:
        """Note that the next messages were passed over."""
        count = min(self.ahead, count)
        self.ahead -= count
        self.passed += count

    def lost(self, in_flight: int) -> None:
        """Record that the link has ended, with that many messages in flight."""
        self.ahead += in_flight
