"""An app's identity, and the place of its node: settings, key, socket, and the router's key to expect."""

from __future__ import annotations

import math
import os
import random as chance
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypedDict

from msgspec import Struct

from router.client.app_end import AppEnd
from router.client.attempts import KeptAttempts
from router.client.bell import Bell
from router.client.custody.aside import Aside, End, is_for_client
from router.client.custody.causes import RECENT
from router.client.custody.inbox import Inbox
from router.client.custody.outbox import Outbox
from router.client.errors import ClientError
from router.client.link import PATIENCE_S, ClientLink, Dialling
from router.client.old_places import OldAppFiles
from router.client.ordering import Known
from router.client.publishing import Publishing
from router.client.sequence import Sequences
from router.core.link.session import Offer
from router.core.wire.crypto import KEY_BYTES, PublicKey, SigningKey
from router.core.wire.prekey_exchange import is_request
from router.core.wire.renewal import Renewal
from router.core.wire.text import key_text, parse_key, short
from router.disk import life_file, private_file
from router.disk.state.app_state import AppState
from router.settings import keyring, renewed_keys
from router.settings.home import Home
from router.settings.renewed_keys import RenewalError

WINDOW_MESSAGES = 1024
WINDOW_BYTES = 4 << 20
APPS = "apps"

WhenDown = Literal["raise", "queue"]


class Settings(Struct, frozen=True):
    """The arguments of `router.connect`, which describes them. `wall_s`, `entropy` and `random` are this process's
    clock and randomness; `seals`: unicasts are sealed, as a service's are not."""

    key: SigningKey | None = None
    as_name: str | None = None
    home: str | os.PathLike[str] | None = None
    url: str | None = None
    expect: PublicKey | str | None = None
    when_down: WhenDown = "raise"
    patience_s: float = PATIENCE_S
    journal: str | os.PathLike[str] | None = None
    attempts_max: int = 0
    outcomes: bool = False
    window_messages: int = WINDOW_MESSAGES
    window_bytes: int = WINDOW_BYTES
    causes: int = RECENT
    verify: bool = False
    on_problem: Callable[[str], None] | None = None
    on_away: Callable[[str], None] | None = None
    wall_s: Callable[[], float] = time.time
    entropy: Callable[[int], bytes] = os.urandom
    random: Callable[[], float] = chance.random
    seals: bool = True


class Options(TypedDict, total=False):
    """The keyword arguments that `router.connect` takes."""

    key: SigningKey | None
    as_name: str | None
    home: str | os.PathLike[str] | None
    url: str | None
    expect: PublicKey | str | None
    when_down: WhenDown
    patience_s: float
    journal: str | os.PathLike[str] | None
    attempts_max: int
    outcomes: bool
    window_messages: int
    window_bytes: int
    causes: int
    verify: bool
    on_problem: Callable[[str], None] | None
    on_away: Callable[[str], None] | None
    random: Callable[[], float]


class SignOn:
    """The settings with keys and paths resolved. Raises `ClientError`, `KeyringError`, `HomeError`, `StoreError`."""

    def __init__(self, settings: Settings) -> None:
        _check(settings)
        self.settings = settings
        self.home = Home.chosen(settings.home)
        self.durable = settings.key is not None or settings.as_name is not None
        if self.durable:  # its key and its state are written into the home
            self.home.check_format()
        self.key = self._key()
        self.state = self._state()
        """What this app remembers, in memory for a throwaway key."""
        self.url = settings.url or f"unix://{self.home.socket_path}"
        patience_s = math.inf if settings.when_down == "queue" else settings.patience_s
        known_cause = str if settings.url else self.home.why_no_socket
        is_held = bool if settings.url else self.home.is_held
        self.dialling = Dialling(
            self.url, self._expect(), patience_s, settings.random, known_cause=known_cause, is_held=is_held
        )

    def __repr__(self) -> str:
        kept = f'"{self.settings.as_name}" ' if self.settings.as_name else "" if self.durable else "throwaway "
        return f"<sign-on of the {kept}key {self.key.public.hex()[:12]}… at {self.url}>"

    @property
    def whom(self) -> str:
        """Return words for this app in sentences: its name, or the start of its address."""
        named = self.settings.as_name
        return f'the app "{named}"' if named else f"the app {short(key_text('addr', self.key.public))}"

    def offer(self) -> Offer:
        settings = self.settings
        return Offer(
            "app",
            bytes(8),
            self.durable,
            settings.window_messages,
            settings.window_bytes,
            settings.entropy(16),
            features=("outcome", "outcome-runs") if settings.outcomes else (),
            name=settings.as_name,
        )

    def inbox(
        self,
        known: Known,
        problem: Callable[[str], None],
        hear_aside: Callable[[bytes, End], None],
        wake_loops: Callable[[], object],
        wake_link: Callable[[], None],
    ) -> Inbox:
        """Return the inbox, with the window that the offer announces. `hear_aside` gets what is for no loop."""
        settings = self.settings
        return Inbox(
            settings.window_messages,
            settings.window_bytes,
            durable=self.durable,
            known=known,
            problem=problem,
            wake_loops=wake_loops,
            wake_link=wake_link,
            aside=Aside(is_for_client if settings.seals else is_request, hear_aside),
        )

    def link(
        self,
        app: AppEnd,
        changed: Callable[[], None],
        to_write: Bell,
        to_ask: Bell,
        key_now: Callable[[], SigningKey | None],
    ) -> ClientLink:
        """Return the link to the node, which begins when it is run."""
        return ClientLink(self.dialling, self.key, self.offer, app, changed, to_write, to_ask, key_now)

    def publishing(self, outbox: Outbox, link: ClientLink) -> Publishing:
        """Return what hands in messages over this link."""
        waits = self.settings.when_down == "queue"
        return Publishing(outbox, link, waits=waits, asks_outcomes=self.settings.outcomes)

    def renewals(self) -> list[Renewal]:
        """Return the renewals of the key of this app's name, the newest last; none if they cannot be read."""
        name = self.settings.as_name
        try:
            return [] if name is None else renewed_keys.statements(self.home.key_path.parent, name)
        except RenewalError:
            return []

    def sequences(self) -> Sequences:
        """Return the sequence numbers of this app's messages."""
        return Sequences(self.state, least=life_file.least_number(self.home.path) if self.durable else 0)

    def attempts(self, problem: Callable[[str], None]) -> KeptAttempts:
        """Return the counts of this app's failures by message."""
        return KeptAttempts(self.settings.attempts_max, self.state, problem)

    def journal_state(self) -> AppState:
        """Return the state in which this app's journal lies; with a throwaway key, it is one beside the journal."""
        journal = self.settings.journal
        return self.state if self.durable or journal is None else AppState(Path(f"{os.fspath(journal)}.state"))

    def _state(self) -> AppState:
        return (
            state_of(self.home, self.settings.as_name or self.key.public.hex()[:16])
            if self.durable
            else AppState.memory()
        )

    def _key(self) -> SigningKey:
        if self.settings.key is not None:
            return self.settings.key
        if self.settings.as_name is not None:
            return self._kept_key(self.settings.as_name)
        return SigningKey(self.settings.entropy(KEY_BYTES))

    def _kept_key(self, name: str) -> SigningKey:
        """Load or make the app's key. If the app starts before its node, the home is made here, with the same
        permissions."""
        try:
            private_file.make_directory(self.home.path)
        except OSError as error:
            said = f"the home {self.home.path} cannot be made: {error.strerror}"
            raise ClientError(f"{said}; choose another with home=… or ROUTER_HOME") from None
        return keyring.load_or_create(self.home, name)

    def _expect(self) -> PublicKey | None:
        """Return the router's key: the one in the settings, else this home's own when its own socket is dialled."""
        expect = self.settings.expect
        if isinstance(expect, str):
            return parse_key(expect, "addr")
        if expect is None and self.settings.url is None and self.home.key_path.exists():
            return keyring.load(self.home, keyring.NODE).public
        return expect


def state_of(home: Home, name: str) -> AppState:
    """Return the state of the app with that name, or the first 16 digits of its key, in a home."""
    folder = Path(home) / APPS
    return AppState(folder / f"{name}.state", OldAppFiles(folder, name))


def _check(settings: Settings) -> None:
    if settings.key is not None and settings.as_name is not None:
        raise ClientError("an app has one key: give key=… or as_name=…, not both")
    if settings.as_name == keyring.NODE:
        raise ClientError(f'"{keyring.NODE}" is the name of the router\'s own key; choose another one for the app')
    if settings.when_down not in ("raise", "queue"):
        raise ClientError(f'when_down is "raise" or "queue", not {settings.when_down!r}')
    if settings.attempts_max < 0:
        raise ClientError(f"attempts_max is {settings.attempts_max}; it is at least 1, or 0 for no end")
    if settings.window_messages < 1 or settings.window_bytes < 1:
        raise ClientError("a window holds at least 1 message and 1 byte")
