"""The part that a service takes in the groups that are wanted: said of many at once, in answer to `Wanted` (R-C27)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Annotated, ClassVar, Literal, Self

from msgspec import Meta

from router.core.service.roles import Role
from router.core.wire.crypto import PublicKey

from .verb import Deed, Request

GROUPS_MAX = 512
"""Most groups of one `TakeParts`."""

Part = Literal["whole", "ids", "none", "taken", "declined", "let go"]
"""How a service takes part in a group: it is given whole messages, or the ids of those that apps of this node publish
(`Published`), or it is in the group no longer; or, of a service that joins none, it has taken note that the group is
wanted, or takes no part, or has taken note that it is not wanted any more."""


class TakePart(Deed, frozen=True):
    """Acknowledge a `Wanted` and be in the group, or (`none`) leave it; later, be given whole messages instead of ids
    or the other way round.

    A message that there is nobody else to give to comes whole in any case."""

    group: PublicKey
    part: Literal["whole", "ids", "none"] = "whole"


class AckWanted(Deed, frozen=True):
    """Acknowledge a `Wanted`, which comes again every 5 s until then. Without `success` the service takes no part in
    the group, until somebody wants it anew."""

    group: PublicKey
    wanted: bool
    success: bool = True

    @property
    def part(self) -> Part:
        if not self.wanted:
            return "let go"
        return "taken" if self.success else "declined"


class TakeParts(Request, frozen=True):
    """The parts in several groups, as they travel: a column for each field. Others than ours acknowledge by SUB_ACK and
    UNSUB_ACK, and join by JOIN."""

    WORD: ClassVar[str] = "take-part"
    ROLES: ClassVar[frozenset[Role]] = frozenset((Role.OVERLAY, Role.FINDER))

    groups: Annotated[tuple[PublicKey, ...], Meta(min_length=1, max_length=GROUPS_MAX)]
    parts: Annotated[tuple[Part, ...], Meta(max_length=GROUPS_MAX)]

    def __post_init__(self) -> None:
        if len(self.groups) != len(self.parts):
            raise ValueError(f"{len(self.groups)} groups with {len(self.parts)} parts; name one of each group")

    @property
    def about(self) -> Hashable:
        return self.WORD

    def heard(self) -> tuple[list[PublicKey], list[PublicKey]]:
        """Return the groups of which the service is given messages or ids, and the others."""
        parts = list(zip(self.groups, self.parts, strict=True))
        heard = [group for group, part in parts if part in ("whole", "ids")]
        return heard, [group for group, part in parts if part not in ("whole", "ids")]

    @classmethod
    def of(cls, parts: Mapping[PublicKey, Part]) -> Self:
        """Return the request for these groups."""
        return cls(tuple(parts), tuple(parts.values()))
