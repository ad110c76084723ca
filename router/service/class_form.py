"""The form of a service's class, judged before an instance is made: which methods it has, and whether these can be
called as its host calls them."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from router.service.contract import Rules
from router.service.host import Service
from router.service.http import ServiceOverHttp

RULES_METHODS = {
    "hear": ("heard", "now"),
    "doors": (),
    "settled": ("now",),
    "batch_delay_s": ("now",),
    "is_urgent": ("heard", "now"),
    "patient_doors": (),
    "admits": ("came", "mono_s"),
}
"""What a host calls on rules, with the arguments that it passes by position; all but `hear` may be missing."""
SERVICE_METHODS = {"on_message": ("message",), "on_connected": ()}
"""What is called, and awaited, on a `Service`."""
HTTP_METHODS = {
    "operations": (),
    "hear_request": ("request", "now"),
    "hear": ("heard", "now"),
    "gone": ("number", "now"),
}
"""What is called on a class that answers over HTTP."""


def fault_of_service(kind: type[Service]) -> str:
    """Return why messages would not reach this service; "" if they do."""
    if kind.on_message is Service.on_message and kind.on_connected is Service.on_connected:
        return "has neither on_message nor on_connected; write `async def on_message(self, message)`"
    for name, arguments in SERVICE_METHODS.items():
        if fault := _method_fault(kind, name, arguments, is_async=True):
            return fault
    return _made_fault(kind, "place")


def fault_of_rules(kind: type[Rules]) -> str:
    """Return why a host could not make these rules, or call them; "" if it can."""
    for name, arguments in RULES_METHODS.items():
        if hasattr(kind, name) and (fault := _method_fault(kind, name, arguments, is_async=False)):
            return fault
    return _made_fault(kind, "setup")


def fault_of_http(kind: type[ServiceOverHttp]) -> str:
    """Return why a class could not answer over HTTP; "" if it can."""
    for name, arguments in HTTP_METHODS.items():
        if not hasattr(kind, name):
            return f"has no {name}; write `def {name}({', '.join(('self', *arguments))})`"
        if fault := _method_fault(kind, name, arguments, is_async=False):
            return fault
    return _made_fault(kind, "setup")


def _method_fault(kind: type, name: str, arguments: tuple[str, ...], *, is_async: bool) -> str:
    found = inspect.getattr_static(kind, name)
    method = getattr(kind, name)
    form = f"`{'async ' if is_async else ''}def {name}({', '.join(('self', *arguments))})`"
    if isinstance(found, property) or not callable(method):
        return f"has {name}, which is no method; write {form}"
    if is_async and not inspect.iscoroutinefunction(method):
        return f"has an {name} that is not async; write {form}"
    if not is_async and (inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)):
        return f"has {name}, which is async; write {form}, since rules wait for nothing"
    is_bound = isinstance(found, staticmethod | classmethod)
    if not _takes(method, len(arguments) + (not is_bound)):
        return f"has {name}, which cannot be called so; write {form}"
    return ""


def _made_fault(kind: type, argument: str) -> str:
    if inspect.isabstract(kind):
        return f"has a class {kind.__name__} that is abstract; write its methods, or name another class"
    if not _takes(kind, 1):
        return f"has an __init__ that cannot be called so; write `def __init__(self, {argument})`"
    return ""


def _takes(function: Callable[..., object], count: int) -> bool:
    """Whether a function can be called with so many arguments by position; True if that cannot be known."""
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:  # of a class or function without a signature
        return True
    return True
