"""What an audit that is filed says of its own making: the command, the versions, and the key that signs it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from router.core.wire.crypto import SigningKey

NOTHING: Mapping[str, str] = MappingProxyType({})


class Filing(Struct, frozen=True):
    """`about`: what the summary's `run` says besides, in order to be printed; `key`: the auditor's, which signs the
    files of `--out`."""

    about: Mapping[str, str] = NOTHING
    key: SigningKey | None = None
