"""The version of what the web side keeps on disk (cddl/web-store.cddl), and the forms of those rows that have one
size."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from router.service.kept_rows import RowForm

from .operator import logins
from .scripts.posts import ONCE

VERSION = 1
_DIGEST, _ID = 32, 12

FORMS: Mapping[bytes, RowForm] = MappingProxyType({
    ONCE: RowForm("what an Idempotency-Key stands for", _DIGEST, range(1, 512)),
    logins.PREFIX: RowForm("a login", _ID, range(1, 2048)),
})  # fmt: skip
