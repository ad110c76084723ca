"""A node that writes no events: `python -m router.bench.unlogged` is `router` without its log.

Only the bench starts it, on a temporary home, to measure the cost of the event log.
"""

from __future__ import annotations

from typing import Any

from router.cli import main
from router.core.log import events
from router.core.routing.effects import Changes


class _Unwritten(list[events.Event]):
    def append(self, _: object) -> None:
        pass


def _forget_events() -> None:
    """Replace the functions that make and take events by ones that do nothing."""
    begin = Changes.__init__

    def begin_without(self: Changes, *given: Any, **more: Any) -> None:
        begin(self, *given, **more)
        self.events = _Unwritten()

    Changes.__init__ = begin_without  # type: ignore[method-assign]
    for name in ("Accepted", "Outward", "Turned", "State"):
        setattr(events, name, lambda *_, **__: None)


if __name__ == "__main__":
    _forget_events()
    main()
