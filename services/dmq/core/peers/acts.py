"""What the governor decides that is to be done with a peer."""

from __future__ import annotations

from msgspec import Struct

from ..protocols.peer_sharing import PeerAddress


class Dial(Struct, frozen=True):
    """Connect to this address."""

    address: PeerAddress
    initiator_only: bool = False


class Hang(Struct, frozen=True):
    """End the connection in order."""

    address: PeerAddress
    why: str


class Heat(Struct, frozen=True):
    """Begin to pull."""

    address: PeerAddress


class Cool(Struct, frozen=True):
    """Pull no more."""

    address: PeerAddress


class AskPeers(Struct, frozen=True):
    """Ask for addresses."""

    address: PeerAddress
    amount: int


Act = Dial | Hang | Heat | Cool | AskPeers
