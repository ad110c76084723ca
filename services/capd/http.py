"""The pool over HTTP (`docs/capd.md`): post, find, watch and rescind messages, for pages and scripts.

It stands beside the doors, with the key of the service that has them, and asks the pool as an app does. Whoever may
open the door may read, and post what is paid for by work; each address has its share.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from router.core.link.allowance import Shares
from router.core.wire.codec import Malformed
from router.core.wire.reasons import Reason
from router.service import contract as c
from router.service.http import HttpAnswer, HttpDeed, HttpRequest, HttpSetup, Operation, answered, refused
from services.capd import reasons
from services.capd.core import messages as m
from services.capd.core.holdings import data_bytes_max
from services.capd.core.limits import PoolLimits, Profile
from services.capd.core.message import CapdMessage, read_message, rescind_hash_of, shown_id
from services.capd.core.over_http import forms as f
from services.capd.core.over_http.limits import CALLERS_MAX, OverHttpLimits
from services.capd.core.over_http.operations import OPERATIONS
from services.capd.core.over_http.questions import ASK, NUMBERS, PoolQuestions
from services.capd.core.over_http.search_turns import SearchTurns
from services.capd.core.over_http.solving_for_others import SOLVE, SolvingForOthers
from services.capd.core.over_http.watching import Watching
from services.capd.core.view import number as json_number
from services.capd.settings import Settings

NOT_HELD = "not-held"


class CapdOverHttp:
    """Answers for the pool. `limits`: what callers may take."""

    limits = OverHttpLimits()

    def __init__(self, setup: HttpSetup) -> None:
        settings: Settings = setup.settings
        limits = PoolLimits(settings.pool_bytes, settings.data_bytes_max)
        self._data_bytes_max = data_bytes_max(limits, Profile(settings.profile))
        first = setup.chance.randrange(NUMBERS)
        self._questions = PoolQuestions(setup.address, self.limits, first, self._forget)
        self._turns = SearchTurns(self._questions, self.limits)
        self._watching = Watching(self._questions, self._turns, self.limits)
        self._solving = SolvingForOthers(settings.solve_cpu_percent, self._questions, self.limits, setup.chance)
        self._shares: Shares[str] = Shares(self.limits.units_per_s, self.limits.units_burst, CALLERS_MAX)

    def __repr__(self) -> str:
        return f"<the pool over HTTP: {self._questions!r}, {self._turns!r}, {self._watching!r}, {self._solving!r}>"

    def operations(self) -> Sequence[Operation]:
        return OPERATIONS

    # -- requests ------------------------------------------------------------------------------------------

    def hear_request(self, request: HttpRequest, now: c.Now) -> Iterable[HttpDeed]:
        try:
            yield from self._hear_request(request, now)
        except f.BadRequest as error:
            yield refused(request.number, 400, "bad-request", str(error))

    def _hear_request(self, request: HttpRequest, now: c.Now) -> Iterator[HttpDeed]:
        """Decide about a request. Raise `BadRequest`."""
        is_post, is_search = request.operation == "postMessage", request.operation in ("findMessages", "watchMessages")
        cost = self.limits.post_units if is_post else self.limits.search_units if is_search else 1
        if not self._shares.take(request.caller, cost, now.mono_s):
            said = "your address has asked for more than one may in this time; ask again later"
            yield refused(request.number, 429, "asks-too-much", said, ("Retry-After", "10"))
            return
        match request.operation:
            case "postMessage":
                yield from self._post(request, now)
            case "findMessages":
                yield from self._find(request, now)
            case "getMessage":
                yield from self._get(request, now)
            case "rescindMessage":
                yield from self._rescind(request, now)
            case "watchMessages":
                yield from self._watching.begin(request, now)
            case "poolInfo":
                then = partial(self._info, request.number)
                yield from self._questions.ask(m.Info, number=request.number, then=then, now=now)

    # -- posting and rescinding ----------------------------------------------------------------------------

    def _post(self, request: HttpRequest, now: c.Now) -> Iterator[HttpDeed]:
        body = f.read_body(request.body, f.SolvedMessage, f.UnsolvedMessage)
        if isinstance(body, f.UnsolvedMessage):
            if (size := len(body.data) // 2) > self._data_bytes_max:  # else work would be done in vain
                said = (
                    f"this is {size} bytes of data, and the pool takes {self._data_bytes_max} in one message; send less"
                )
                yield _refused_for(request.number, reasons.TOO_LARGE, said)
                return
            hand_in = partial(self._hand_in, request.number)
            yield from self._solving.begin(request.number, request.caller, body, hand_in, now)
            return
        message = body.message()
        if message.has_expired(int(now.wall_s)):
            yield _refused_for(request.number, reasons.EXPIRED, "")
        else:
            yield from self._hand_in(request.number, message, now)

    def _hand_in(self, number: int, message: CapdMessage, now: c.Now) -> Iterator[HttpDeed]:
        then = partial(self._posted, number)
        yield from self._questions.ask(m.Post, message.encoded(), number=number, then=then, now=now)

    def _posted(self, number: int, said: m.PostAnswer, now: c.Now) -> Iterator[HttpDeed]:
        if said.result:
            yield _refused_for(number, reasons.of(said.result), said.text)
            return
        value = {"hash": shown_id(said.id), "held": said.held is not None}
        state = {} if said.held is None else {"state": said.held.value}
        yield answered(number, {**value, **state}, 201 if said.held is None else 200)

    def _rescind(self, request: HttpRequest, now: c.Now) -> Iterator[HttpDeed]:
        own_id = f.id_of(request.values["hash"])
        secret = bytes.fromhex(f.read_body(request.body, f.Secret).secret)
        then = partial(self._rescind_found, request.number, secret)
        yield from self._questions.ask(m.Get, own_id, number=request.number, then=then, now=now)

    def _rescind_found(self, number: int, secret: bytes, said: m.Found, now: c.Now) -> Iterator[HttpDeed]:
        """Rescind the message if the secret is its own, so that none ends that the path does not name."""
        if not said.messages:
            yield _not_held(number)
        elif read_message(said.messages[0][1]).rescind_hash != rescind_hash_of(secret):
            yield refused(number, 422, "other-secret", "this is not the secret of that message; give its own")
        else:
            then = partial(self._rescinded, number)
            yield from self._questions.ask(m.Rescind, secret, number=number, then=then, now=now)

    def _rescinded(self, number: int, said: m.Rescinded | m.Done, now: c.Now) -> Iterator[HttpDeed]:
        if isinstance(said, m.Done):  # it was displaced meanwhile
            yield _not_held(number)
            return
        yield answered(number, {"rescinded": [shown_id(one) for one in said.ids]})

    # -- asking --------------------------------------------------------------------------------------------

    def _find(self, request: HttpRequest, now: c.Now) -> Iterator[HttpDeed]:
        parameters = request.parameters
        pattern, ids = f.pattern_of(parameters), f.flag_of(parameters, "hashes")
        start = f.count_of(parameters, "start", 0, f.UINT32_MAX)
        most = m.PAGE_IDS_MAX if ids else m.PAGE_MESSAGES_MAX
        limit = f.count_of(parameters, "limit", self.limits.page_default, most, 1)
        if not self._shares.take(request.caller, limit // (100 if ids else 10), now.mono_s):
            said = "your address has searched for more than one may in this time; ask again later"
            yield refused(request.number, 429, "asks-too-much", said, ("Retry-After", "10"))
            return
        query = partial(m.Query, pattern=pattern, ids=ids, start=start, limit=limit)
        then, number = partial(self._found, request.number), request.number
        yield from self._turns.ask(query, caller=request.caller, number=number, then=then, now=now)

    def _found(self, number: int, said: m.Found | m.FoundIds, now: c.Now) -> Iterator[HttpDeed]:
        if isinstance(said, m.FoundIds):
            yield answered(number, {"count": said.count, "hashes": [shown_id(one) for one in said.ids]})
            return
        now_s = int(now.wall_s)
        messages = [f.shown(read_message(wire), standing, now_s) for standing, wire in said.messages]
        yield answered(number, {"count": said.count, "messages": messages})

    def _get(self, request: HttpRequest, now: c.Now) -> Iterator[HttpDeed]:
        then = partial(self._got, request.number)
        own_id = f.id_of(request.values["hash"])
        yield from self._questions.ask(m.Get, own_id, number=request.number, then=then, now=now)

    def _got(self, number: int, said: m.Found, now: c.Now) -> Iterator[HttpDeed]:
        if not said.messages:
            yield _not_held(number)
            return
        standing, wire = said.messages[0]
        yield answered(number, f.shown(read_message(wire), standing, int(now.wall_s)))

    def _info(self, number: int, said: m.PoolInfo, now: c.Now) -> Iterator[HttpDeed]:
        lines = {"relayPriority": said.relay, "minPriority": said.least, "maxPriority": said.highest}
        value = {"size": said.size, "count": said.count, **{name: json_number(one) for name, one in lines.items()}}
        yield answered(number, {**value, "dataBytesMax": self._data_bytes_max, "solves": self._solving.is_open})

    # -- hearing -------------------------------------------------------------------------------------------

    def hear(self, heard: c.Heard, now: c.Now) -> Iterable[HttpDeed]:
        match heard:
            case c.Message(body=body):
                yield from self._said(body, now)
            case c.Sent(tag, refused=Reason() as reason, text=text) if tag.startswith(ASK):
                yield from self._questions.not_heard(tag, reason, text)
            case c.HopOutcome(tag, reason=Reason() as reason) if tag.startswith(ASK):
                yield from self._questions.not_heard(tag, reason, "")
            case c.Computed(tag) if tag.startswith(SOLVE):
                yield from self._solving.computed(heard, now)
            case c.Tick():
                yield from self._questions.tick(now)
                yield from self._turns.tick(now)
                yield from self._watching.tick(now)

    def _said(self, body: bytes, now: c.Now) -> Iterator[HttpDeed]:
        try:
            said = m.decode_message(body)
        except Malformed:  # a pool of another version says what we do not know: its question waits in vain
            return
        if isinstance(said, m.Match):
            yield from self._watching.match(said.standing, said.message, now)
        elif isinstance(said, m.Answer):
            yield from self._questions.answered(said, now)

    def gone(self, number: int, now: c.Now) -> Iterable[HttpDeed]:
        self._questions.drop(number)
        self._turns.drop(number)
        yield from self._watching.gone(number, now)

    def _forget(self, number: int) -> None:
        self._watching.forget(number)


def _refused_for(number: int, reason: Reason, text: str) -> HttpAnswer:
    """Return a refusal for the pool's reason."""
    status = 503 if reason.later or reason is Reason.DISK_FULL else 422
    return refused(number, status, reason.word, text or reason.sentence)


def _not_held(number: int) -> HttpAnswer:
    return refused(number, 404, NOT_HELD, "the pool does not hold this message; it may have faded, or never come")
