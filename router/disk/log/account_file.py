"""The account of open units beside the log (cddl/account.cddl): written with each segment, read at the next start.

It is derived data: where it is missing, damaged, of another router or ahead of the store, the next comparison takes the
store's word for what is open, and only a loss from before that goes unnoticed; alarms stand by its word, or by that of
the log's lines (`alarm_lines`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cbor2

from router.core.log.account import Account, AccountCopy
from router.core.log.alarms import StandingAlarms
from router.disk import private_file

log = logging.getLogger(__name__)

NAME = ".account"
VERSION = 1
RECIPIENTS_MAX = 100_000
"""Recipients whose open units are written; with more of them none are, and a loss over a restart goes unnoticed."""
BYTES_MAX = 32 << 20
KEY_BYTES = 32, 0
"""Lengths of a recipient; 0: several, for which an alarm without a recipient stands."""


def write(directory: Path, router: bytes, copy: AccountCopy) -> None:
    """Replace the file. Raise `OSError` if the disk fails."""
    units = copy.units and {bytes(key): one for key, one in copy.units.items()}
    said = [VERSION, bytes(router), copy.next_seq, units, copy.alarms]
    private_file.replace(directory / NAME, cbor2.dumps(said))


def read(
    directory: Path,
    router: bytes,
    sealed_seq: int,
    next_seq: int,
    alarms_by_log: Callable[[], StandingAlarms] = StandingAlarms,
) -> Account:
    """Return the account of an earlier run; if there is none that fits, a new one that begins behind the last sealed
    event, without units unless the log begins there, and with `alarms_by_log`. `next_seq`: the number of the store's
    next event; an account that is ahead of it is of a store that is gone, and only its alarms count."""
    path = directory / NAME
    try:
        raw = private_file.read(path, BYTES_MAX)
        found = _decoded(raw, router)
    except FileNotFoundError:
        return _anew(sealed_seq, alarms_by_log())
    except (OSError, private_file.Exposed, ValueError, TypeError, cbor2.CBORError, RecursionError) as error:
        log.info("the account of open units in %s is made anew: %s", path, str(error)[:200])
        return _anew(sealed_seq, alarms_by_log())
    return found if found.next_seq <= next_seq else _anew(sealed_seq, found.alarms)


def _anew(sealed_seq: int, alarms: StandingAlarms) -> Account:
    account = Account(sealed_seq + 1)
    account.alarms = alarms
    return account


def _decoded(raw: bytes, router: bytes) -> Account:
    """Return the account in these bytes; raise ValueError or TypeError if it is none of this router."""
    if len(raw) > BYTES_MAX:
        raise ValueError(f"it has more than {BYTES_MAX} bytes")
    said: Any = cbor2.loads(raw)
    if not isinstance(said, list) or len(said) != 5 or said[:2] != [VERSION, bytes(router)]:
        raise ValueError(f"it is not of version {VERSION} and of this router")
    next_seq, units, alarms = said[2:]
    if not isinstance(next_seq, int) or next_seq < 1:
        raise ValueError("its number of events is none")
    if units is not None and not isinstance(units, dict):
        raise ValueError("its units are none")
    if units and not all(
        isinstance(key, bytes) and len(key) in KEY_BYTES and isinstance(one, int) for key, one in units.items()
    ):
        raise ValueError("its units are not by recipient")
    account = Account(next_seq, units)
    account.alarms.load(alarms)
    return account
