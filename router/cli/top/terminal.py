"""The terminal in which `router top` draws: the keys that are pressed, and lines in place."""

from __future__ import annotations

import curses
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import trio

from router.cli.top.screen import SORTS, Moment, ShownLine, ordered, screen

RESIZED_S = 0.5
"""The longest time after which a changed size of the terminal is drawn."""
_COLOURS = (("good", curses.COLOR_GREEN), ("attention", curses.COLOR_YELLOW), ("bad", curses.COLOR_RED))


def can_draw() -> bool:
    """Whether both ends are a terminal on which lines can be drawn in place."""
    if sys.stdin is None or sys.stdout is None or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    try:
        curses.setupterm(fd=sys.stdout.fileno())
    except curses.error:
        return False
    return bool(curses.tigetstr("cup")) and bool(curses.tigetstr("clear"))


class LiveScreen:
    """The screen of the terminal, and what was chosen by keys."""

    def __init__(self, window: curses.window) -> None:
        self._window = window
        self._styles = _styles()
        self._sort, self._selected = SORTS[0], ""
        self._moment: Moment | None = None

    def draw(self, moment: Moment | None = None) -> None:
        """Draw this moment; without one, the last again."""
        self._moment = moment or self._moment
        self._window.erase()
        height, width = self._window.getmaxyx()
        lines: Sequence[ShownLine] = ()
        if self._moment is not None:
            lines = screen(self._moment, width, height, sort=self._sort, selected=self._selected)
        for number, line in enumerate(lines[:height]):
            try:
                self._window.addnstr(number, 0, line.text, width, self._styles.get(line.style, 0))
            except curses.error:  # It has written the last cell, behind which no cursor can stand.
                pass
        self._window.refresh()

    def press(self) -> bool:
        """Do what the keys that were pressed ask for; return whether that is to end."""
        while (key := self._window.getch()) != -1:
            if key in (ord("q"), ord("Q")):
                return True
            if key == ord("s"):
                self._sort = SORTS[(SORTS.index(self._sort) + 1) % len(SORTS)]
            elif key in (curses.KEY_DOWN, ord("j")):
                self._select(1)
            elif key in (curses.KEY_UP, ord("k")):
                self._select(-1)
        return False

    def _select(self, step: int) -> None:
        keys = [row.key for row in ordered(self._moment.rows, self._sort)] if self._moment else []
        if not keys:
            return
        at = keys.index(self._selected) + step if self._selected in keys else (0 if step > 0 else len(keys) - 1)
        self._selected = keys[at] if 0 <= at < len(keys) else ""

    async def until_left(self) -> None:
        """Draw anew for each key, until one asks to leave."""
        while not self.press():
            self.draw()
            with trio.move_on_after(RESIZED_S):  # The library notes a changed size, but wakes nobody.
                await trio.lowlevel.wait_readable(sys.stdin.fileno())


def _styles() -> dict[str, int]:
    styles = {"bold": curses.A_BOLD, "selected": curses.A_REVERSE, "attention": curses.A_BOLD, "bad": curses.A_BOLD}
    if curses.has_colors() and not os.environ.get("NO_COLOR"):
        for number, (style, colour) in enumerate(_COLOURS, 1):
            curses.init_pair(number, colour, -1)
            styles[style] = curses.color_pair(number) | (curses.A_BOLD if style == "bad" else 0)
    return styles


@contextmanager
def drawing() -> Iterator[LiveScreen]:
    """Take the whole terminal, and give it back as it was."""
    window = curses.initscr()
    try:
        curses.noecho()
        curses.cbreak()
        window.keypad(True)
        window.nodelay(True)
        if curses.has_colors():
            curses.start_color()
            curses.use_default_colors()
        try:
            curses.curs_set(0)
        except curses.error:  # This terminal cannot hide it.
            pass
        yield LiveScreen(window)
    finally:
        window.keypad(False)
        curses.nocbreak()
        curses.echo()
        curses.endwin()
