"""Connected routers that have a public service with the role of the one that is told."""

from __future__ import annotations

import json
from typing import ClassVar, Self

from router.core.wire.crypto import PublicKey

from .verb import News


class Linked(News, frozen=True):
    """A router whose service with the role of this one is public is connected, or (`service` is None) is not any more.

    This comes for each such router when the service starts, and whenever that changes, also because the connection to
    the own router is lost. The service that finds routers hears so of configured and invited routers alone."""

    WORD: ClassVar[str] = "linked"

    router: PublicKey
    service: PublicKey | None = None

    def to_argument(self) -> str:
        """Return the JSON object that travels, with "" for no service."""
        return json.dumps({"router": self.router.hex(), "service": self.service.hex() if self.service else ""})

    @classmethod
    def from_argument(cls, argument: str) -> Self:
        """Return the event of such an object."""
        said = json.loads(argument)
        service = PublicKey(bytes.fromhex(said["service"])) if said["service"] else None
        return cls(PublicKey(bytes.fromhex(said["router"])), service)
