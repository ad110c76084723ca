"""The pool of Counterparty and Protocol Discovery (CAPD): messages paid for by work, found by their first bytes.

The names here are what a wallet needs; they are loaded when they are first used, since the pool itself needs none.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers read this name as True
if TYPE_CHECKING:
    from services.capd.wallet import Hit, Offer, PoolError, open_pool
    from services.capd.wallet import NodePool as Pool

__all__ = ["Hit", "Offer", "Pool", "PoolError", "open_pool"]
RUN = "apart"
"""A process of its own by default: a million rows and strangers' bytes do not belong on the router's loop."""


def __getattr__(name: str) -> object:
    if name in __all__:
        return _load(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _load(name: str) -> object:
    from services.capd import wallet

    return wallet.NodePool if name == "Pool" else getattr(wallet, name)
