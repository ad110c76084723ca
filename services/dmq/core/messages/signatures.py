"""The two signatures of a message: the cold key's over the certificate, the KES key's over the message.

Certificates and KES paths that were verified are remembered by their exact bytes, so that a pool's next message of the
same period costs one verification of Ed25519. Only valid ones are remembered, so invalid ones displace nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from router.core.wire.crypto import SIGNATURE_BYTES, verify

from .certificate import KES_KEY_BYTES, is_signed
from .fault import Fault
from .kes import KesPath, leaf_of, path_of

CERTIFICATES_MAX = 8192
PATHS_MAX = 8192
"""Number of certificates and KES paths that are remembered: twice the number of pools."""

K = TypeVar("K")
V = TypeVar("V")


class SignatureCheck(Struct, frozen=True, gc=False, array_like=True):
    """What is to be verified of a message; `certificate`: its `packed` bytes; `evolutions`: the KES evolutions in which
    it may have been signed; `is_certified`: this node has verified that certificate before."""

    certificate: bytes
    signed: bytes
    kes_signature: bytes
    evolutions: tuple[int, ...]
    is_certified: bool = False


class _Verified(Generic[K, V]):
    """Results that were not None, the oldest forgotten first."""

    def __init__(self, most: int, find: Callable[[K], V | None]) -> None:
        self._most = most
        self._find = find
        self._known: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __call__(self, key: K) -> V | None:
        known = self._known.get(key)
        if known is not None:
            return known
        found = self._find(key)
        if found is not None:
            self.add(key, found)
        return found

    def __contains__(self, key: K) -> bool:
        return key in self._known

    def add(self, key: K, found: V) -> None:
        """Remember a result."""
        if key not in self._known and len(self._known) == self._most:
            del self._known[next(iter(self._known))]
        self._known[key] = found


class SignatureChecker:
    """Verifies signatures, and remembers the parts that may come again."""

    def __init__(self, certificates_max: int = CERTIFICATES_MAX, paths_max: int = PATHS_MAX) -> None:
        self._certificates = _Verified[bytes, bool](certificates_max, lambda one: is_signed(one) or None)
        self._leaves = _Verified[KesPath, bytes](paths_max, leaf_of)

    def __repr__(self) -> str:
        return f"<SignatureChecker that knows {len(self._certificates)} certificates, {len(self._leaves)} KES paths>"

    def without_known(self, check: SignatureCheck) -> SignatureCheck:
        """Return the check for another process of this node: a certificate that is known here is not verified again."""
        return replace(check, is_certified=True) if check.certificate in self._certificates else check

    def learn(self, check: SignatureCheck) -> None:
        """Remember the certificate of a message that another process of this node has found right."""
        self._certificates.add(check.certificate, True)

    def fault(self, check: SignatureCheck) -> Fault | None:
        """Return what `faults` does, for one message."""
        return self.faults([check])[0]

    def faults(self, checks: Sequence[SignatureCheck]) -> list[Fault | None]:
        """Return for each which signature is wrong, the certificate's first; None if both are right.

        Each step is made for all before the next: the tables of Ed25519 stay in the processor's cache meanwhile."""
        certified = [check.is_certified or self._certificates(check.certificate) for check in checks]
        leaves = [self._leaves_of(check) if good else () for check, good in zip(checks, certified, strict=True)]
        signed = [_is_signed_by(check, some) for check, some in zip(checks, leaves, strict=True)]
        return [
            (None if right else Fault.BAD_SIGNATURE) if good else Fault.BAD_CERTIFICATE
            for good, right in zip(certified, signed, strict=True)
        ]

    def _leaves_of(self, check: SignatureCheck) -> list[bytes]:
        """Return the keys of the evolutions in which the message may have been signed."""
        root, signature = check.certificate[:KES_KEY_BYTES], check.kes_signature
        found = [self._leaves(path_of(root, evolution, signature)) for evolution in check.evolutions]
        return [leaf for leaf in found if leaf is not None]


def _is_signed_by(check: SignatureCheck, leaves: Iterable[bytes]) -> bool:
    signature = check.kes_signature[:SIGNATURE_BYTES]
    return any(verify(leaf, check.signed, signature) for leaf in leaves)
