"""Numbers, times and keys as the page writes them."""

from __future__ import annotations

import pytest

from router.core.wire.reasons import Reason
from spark_analytics.report.page.markup import Markup, join, plain, tag, text
from spark_analytics.report.page.wording import (
    between,
    counted,
    key,
    lasting,
    milliseconds,
    number,
    prose,
    share,
    window_text,
)
from spark_analytics.report.reading import minute, real, rows, whole
from spark_analytics.report.reasons import SENTENCES

NOON = 29_555_280  # 12 March 2026, 12:00 UTC, in minutes since 1970


def test_numbers_have_separators_and_nouns_their_plural() -> None:
    assert [number(each) for each in (0, 1_234_567, -1_234, None, 2.5)] == ["0", "1,234,567", "-1,234", "–", "2.5"]
    assert [counted(each, "log") for each in (0, 1, 2_000)] == ["0 logs", "1 log", "2,000 logs"]


@pytest.mark.parametrize(
    ("part", "of", "words"),
    [
        (0, 10, "0 %"), (10, 10, "100 %"), (1, 1_000_000, "< 0.01 %"), (999_999, 1_000_000, "> 99.99 %"),
        (1, 3, "33.3 %"), (1, 200, "0.50 %"), (995, 1_000, "99.50 %"), (0, 0, "–"),
    ],
)  # fmt: skip
def test_a_share_is_never_rounded_to_none_or_all(part: int, of: int, words: str) -> None:
    assert share(part, of) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"), (1.284e-3, "1.28 ms"), (0.0183, "18.3 ms"), (0.9999, "1 s"), (0.213, "213 ms"), (2460, "41 min"),
        (10_320, "2.9 h"), (90_000, "1 d"), (5e-9, "5 ns"), (-0.0018, "−1.8 ms"), (None, "–"), (720, "12 min"),
    ],
)  # fmt: skip
def test_a_length_of_time_is_in_the_unit_that_fits_it(seconds: float | None, words: str) -> None:
    assert lasting(seconds) == words


def test_milliseconds_and_spans_of_time() -> None:
    assert milliseconds(184_220.0) == "3.1 min"
    assert between(NOON, NOON + 60) == "12 Mar 2026, 12:00 to 13:00"
    assert between(NOON, NOON + 1440) == "12 Mar 2026, 12:00 to 13 Mar 2026, 12:00"
    assert window_text(NOON - 720, 1440) == "12 Mar"
    assert window_text(NOON - 720, 2880) == "12 Mar to 13 Mar"


def test_what_is_not_markup_is_escaped_wherever_it_stands() -> None:
    assert tag("p", "<b>", title='"&') == '<p title="&quot;&amp;">&lt;b&gt;</p>'
    assert tag("p", tag("b", 1), class_="x", hidden=True, id=None) == '<p class="x" hidden><b>1</b></p>'
    assert join("<", Markup("<br>"), None) == "&lt;<br>"
    assert text("a" * 500).endswith("a…")


def test_what_cannot_be_seen_is_shown_by_number() -> None:
    assert plain("a\x00b\u202ec\ud800\n") == "a‹U+0000›b‹U+202E›c‹U+D800›‹U+000A›"
    assert plain("Grüße, 世界") == "Grüße, 世界"


def test_keys_in_sentences_are_cut_off_for_the_eyes_only() -> None:
    said = prose(f"The router {'ab' * 32} lost `<x>`; run `router why {'cd' * 32}`.")
    assert f'<code class="key" title="{"ab" * 32}">{"ab" * 32}</code>' in said
    assert "<code>&lt;x&gt;</code>" in said
    assert f'<code class="command">router why {"cd" * 32}</code>.' in said
    assert key(None, "its own") == '<span class="none">its own</span>'


def test_reasons_are_explained_as_the_router_explains_them() -> None:
    assert {reason.word: reason.sentence for reason in Reason} == SENTENCES


def test_instants_are_minutes_or_utc_text_and_nothing_else() -> None:
    assert minute("2026-03-12T12:00:00+00:00") == minute("2026-03-12T12:00:59") == minute(NOON) == NOON
    assert [minute(each) for each in ("soon", None, 1 << 50, 1.5)] == [None] * 4


def test_values_of_another_kind_read_as_nothing() -> None:
    odd = {"a": "x", "b": [1, {"c": 2}], "n": float("nan"), "big": 10**40}
    assert (whole(odd, "a"), whole(odd, "n"), whole(odd, "big"), whole(odd, "none")) == (0, 0, 0, 0)
    assert (real(odd, "a"), real(odd, "n")) == (None, None)
    assert (rows(odd, "a"), rows(odd, "b")) == ([], [{"c": 2}])
