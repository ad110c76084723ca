"""Signatures of rules with the key of their own service, over strings with a label, so that none is taken for a
message."""

from __future__ import annotations

import re

from msgspec import Struct

LABEL = re.compile(r"upsycle [a-z ]+ [0-9]+")


class Attest(Struct, frozen=True):
    """Sign `label` and these bytes with the service's own key; `Attested` with the same tag brings the signature.

    A label reads like "upsycle interests 1": nothing else that we sign begins like that (R-B7)."""

    label: str
    data: bytes
    tag: str = ""

    def signed(self) -> bytes:
        """Return the bytes to sign; raise ValueError if the label has another form."""
        if not LABEL.fullmatch(self.label):
            raise ValueError(f'"{self.label}" is no label of signed bytes; write one like "upsycle interests 1"')
        return self.label.encode() + self.data


class Attested(Struct, frozen=True):
    """The signature that the `Attest` with this tag asked for."""

    tag: str
    signature: bytes
