"""The tables by which parts say what they hear, judged as classes: before a router is made of them, and without one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from router.core.service.roles import Role
from router.service.verbs.verb import News, Request, place_of, same_word

from .part import Part
from .verb_part import VerbPart


def table_faults(parts: Iterable[type[Part]]) -> Iterator[str]:
    """Yield why a router cannot be made of these parts: a table that is none, a verb without a form that can be heard,
    or two parts that hear the same."""
    heard = dict[type, type[Part]]()
    owners = dict[str, tuple[type[Part], type[Request] | None]]()
    for part in parts:
        if not isinstance(part.HEARS, Mapping) or not isinstance(part.ORDERS, Mapping):
            yield f"the HEARS or ORDERS of {place_of(part)} is no table; write {{Verb: method}}, or {{word: method}}"
            continue
        for kind, method in part.HEARS.items():
            if not isinstance(kind, type) or not callable(method):
                yield f"the HEARS of {place_of(part)} names {_kind_of(kind)}; write {{Verb: method}}"
            elif issubclass(kind, Request):
                yield from _verb_faults(part, kind, owners)
            elif (other := heard.setdefault(kind, part)) is not part:
                yield f"{place_of(part)} hears {kind.__name__}, as {place_of(other)} does; one of them is to"
        for word in part.ORDERS:
            yield from _word_faults(part, None, word, owners)


def _verb_faults(
    part: type[Part], kind: type[Request], owners: dict[str, tuple[type[Part], type[Request] | None]]
) -> Iterator[str]:
    if not all(isinstance(role, Role) for role in kind.ROLES):
        yield f"{place_of(kind)} names ROLES {set(kind.ROLES)}; there are {', '.join(Role)}"
    if not kind.WORD:
        yield f"{place_of(part)} carries out {place_of(kind)}, a verb without a word; give that class a WORD"
    else:
        yield from _word_faults(part, kind, kind.WORD, owners)


def _word_faults(
    part: type[Part], kind: type[Request] | None, word: str, owners: dict[str, tuple[type[Part], type[Request] | None]]
) -> Iterator[str]:
    other, verb = owners.setdefault(word, (part, kind))
    if (other, verb) != (part, kind):
        ours, theirs = _hearer(part, kind), _hearer(other, verb)
        yield f'{theirs} and {ours} both hear the word "{word}"; give one of them another word'


def _hearer(part: type[Part], kind: type[Request] | None) -> str:
    return f"{place_of(part)}, as an order," if kind is None else f"{place_of(part)}, for {place_of(kind)},"


def word_faults(verbs: Iterable[type[Request | News]]) -> Iterator[str]:
    """Yield which requests, and which news, have the same word."""
    words = dict[tuple[bool, str], list[type[Request | News]]]()
    for one in verbs:
        if one.WORD:
            words.setdefault((issubclass(one, Request), one.WORD), []).append(one)
    yield from (same_word(same) for same in words.values() if len(same) > 1)


def without_part(parts: Iterable[type[Part]], verbs: Iterable[type[Request]]) -> Iterator[str]:
    """Yield which requests nobody carries out."""
    heard = {kind for part in parts if isinstance(part.HEARS, Mapping) for kind in part.HEARS}
    yield from (no_part(_verb(one)) for one in verbs if one not in heard and not one.BY_NODE)


def no_part_for(word: str) -> str | None:
    """Return the sentence about a request of this word that no part carries out; None if no class has the word."""
    return next((no_part(_verb(one)) for one in Request.__subclasses__() if word and word == one.WORD), None)


def _verb(kind: type[Request]) -> str:
    return f'{place_of(kind)}, the verb "{kind.WORD}",'


def no_part(verb: str) -> str:
    """Return the sentence about a verb that no part carries out."""
    return f"{verb} has no part: none in router/core/control/ names it in its HEARS; write the part there, or name it"


def deaf_parts(parts: Iterable[type[Part]]) -> Iterator[str]:
    """Yield which parts of verbs hear nothing."""
    for part in parts:
        if issubclass(part, VerbPart) and not part.HEARS and not part.ORDERS:
            yield f"{place_of(part)} hears nothing; write its table HEARS, {{Verb: method}}"


def _kind_of(value: Any) -> str:
    return value.__name__ if isinstance(value, type) else f"something of type {type(value).__name__}"
