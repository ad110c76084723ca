"""The state that all deciding parts of a router share, as one value."""

from __future__ import annotations

from typing import Any, Protocol

from msgspec import Struct

from router.core.neighbours.book import Book
from router.core.neighbours.directory import Directory
from router.core.wire.admin import Answer, Inquiry
from router.core.wire.control import Control
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.hint import Hinted
from router.core.wire.now import Now
from router.core.wire.pubsub import Wanted
from router.core.wire.redemption import Redemption
from router.core.wire.whereabouts import AskWhereabouts, Whereabouts

from .arrivals import Arrivals
from .duplicate_index import Index
from .effects import Pending
from .groups import Groups
from .limits import CoreLimits
from .links import Link, Links
from .queues import RecipientQueues
from .rejection_log import RejectionLog
from .routes import Routes
from .seen import Seen

Said = Control | Answer | Inquiry | Wanted | Hinted | Redemption | Whereabouts | AskWhereabouts
"""The bodies of messages in a router's own name."""


class Says(Protocol):
    """Sends messages in this router's own name (`control/speaker.py`)."""

    def say(self, link: Link, said: Said, now: Now, to: PublicKey | None = None) -> bool: ...
    def answer(self, link: Link, number: int | None, answer: Any, now: Now) -> None: ...
    def has_room(self, link: Link, size: int = 0) -> bool: ...
    def may_answer(self, link: Link) -> bool: ...
    def settled(self, link: Link, now: Now) -> None: ...
    def pass_on(self, link: Link, wire: bytes) -> bool: ...


class Kernel(Struct, frozen=True):
    """What the parts share: each of these has one owner, and the parts decide upon all of them in one thread.

    `key`: this router's own; `directory`: standings and rights of keys; `book`: the entries of services and guests in
    it; `pending`: the changes and effects decided so far; `rejections`: what is logged of refused messages; `speaker`
    sends in this router's own name.
    """

    key: SigningKey
    directory: Directory
    book: Book
    links: Links
    groups: Groups
    queues: RecipientQueues
    routes: Routes
    seen: Seen
    index: Index
    arrivals: Arrivals
    pending: Pending
    rejections: RejectionLog
    speaker: Says
    limits: CoreLimits

    def revision(self) -> tuple[int, ...]:
        """Return a value that changes whenever a plan could."""
        ours = self.directory.revision, self.directory.agreements.revision
        return *ours, self.links.revision, self.groups.revision, self.routes.revision
