"""Keep Ctrl-C out of the client's own steps, so that it leaves none half done.

trio raises `KeyboardInterrupt` in whatever Python code runs at that moment. In protected code it does not: it waits
until the app's own code runs, or its main task waits.
"""

from __future__ import annotations

from types import FunctionType
from typing import TypeVar
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

import trio
from trio.lowlevel import enable_ki_protection

Kind = TypeVar("Kind", bound=type)

# trio 0.35 protects all its steps but these. A Ctrl-C in them leaves a task that never runs, for which its nursery
# waits for ever, or wakes a task that has ended, which ends the whole program.
for step in (trio.Nursery.start, trio.Nursery.start_soon, trio.Event.wait):
    enable_ki_protection(step)

# Python drops what is raised in a callback of a weak reference, as in `__del__`, where trio raises nothing.
for references in (WeakSet[object](), WeakKeyDictionary[object, object](), WeakValueDictionary[object, object]()):
    enable_ki_protection(references._remove)  # type: ignore[union-attr]


def uninterrupted(kind: Kind) -> Kind:
    """Protect the methods of a class, and all that they call, from Ctrl-C."""
    for method in vars(kind).values():
        if isinstance(method, FunctionType):
            enable_ki_protection(method)
    return kind
