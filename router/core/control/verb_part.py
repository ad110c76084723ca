"""Parts that carry out one verb of services each: found by their class, so that adding one touches no other file."""

from __future__ import annotations

from router.core.routing.kernel import Kernel

from .part import ControlPart
from .rights import Rights

OWN_KEY = "that is a key of this node itself"


class VerbPart(ControlPart):
    """A part that needs what all parts share and nothing else."""

    def __init__(self, kernel: Kernel, rights: Rights) -> None:
        """Keep what the verb needs of these."""
