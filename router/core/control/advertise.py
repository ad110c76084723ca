"""The verb `Advertise`: the router signs an advertisement of itself for a service (R-D24)."""

from __future__ import annotations

from typing import Any, ClassVar

from router.core.neighbours.own_advertisement import CannotAdvertise, OwnAdvertisement
from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.wire.now import Now
from router.service.verbs.advertise import SignAdvertisement

from .part import Hears
from .rights import Rights
from .verb_part import VerbPart


class OwnAdvertisements(VerbPart):
    """Has advertisements of this router signed."""

    def __init__(self, kernel: Kernel, rights: Rights) -> None:
        self._own = OwnAdvertisement(kernel.key, kernel.directory, kernel.book)
        self._rights = rights

    def sign(self, link: Link, said: SignAdvertisement, now: Now) -> dict[str, Any]:
        """Return the signed message; its revision is in the store before anybody sees it."""
        try:
            made, rows = self._own.sign(said, now)
        except CannotAdvertise as error:
            return {"error": str(error)}
        self._rights.write(rows)
        return {"message": made.message.hex()}

    HEARS: ClassVar[Hears] = {SignAdvertisement: sign}
