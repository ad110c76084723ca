"""Network machines for tests: `router.rig.machines`, or the test is skipped with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Network

import pytest

from router.rig import machines
from router.rig.machines import NETWORK, Bridge


@contextmanager
def bridged(network: IPv4Network = NETWORK) -> Iterator[Bridge]:
    """Yield a switch to which machines are joined; skip the test where that is not permitted."""
    if reason := machines.why_not():
        pytest.skip(reason)
    with machines.bridged(network) as bridge:
        yield bridge
