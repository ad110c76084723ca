"""The numbers of arrival: each accepted message has one, in the order of acceptance, also across restarts."""

from __future__ import annotations


class Arrivals:
    """Owns the next number."""

    def __init__(self, following: int) -> None:
        self.following = following

    def __repr__(self) -> str:
        return f"<arrivals: the next has the number {self.following}>"

    def take(self, count: int) -> None:
        """Use as many numbers."""
        self.following += count

    def give_back(self, first: int) -> None:
        """Take back the numbers from `first` on, which have not been used anywhere."""
        self.following = first
