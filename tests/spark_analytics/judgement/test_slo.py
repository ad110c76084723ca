"""The texts of service levels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_analytics.judgement.slo import USUAL, WHOLE_PPM, Slo, parse_slo


@pytest.mark.parametrize(
    ("text", "slo"),
    [
        ("99.9:5s", USUAL),
        ("95:500ms", Slo(950_000, 500_000_000)),
        ("99.9999%:2m", Slo(999_999, 120 * 10**9)),
        (" 50.05:1.5h ", Slo(500_500, 5400 * 10**9)),
        ("1:0.25s", Slo(10_000, 250_000_000)),
    ],
)
def test_a_share_and_a_time_are_read(text: str, slo: Slo) -> None:
    assert parse_slo(text) == slo


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "write SHARE:TIME"),
        ("99.9", "write SHARE:TIME"),
        ("100:5s", "write one below it"),
        ("999:5s", "write one below it"),
        ("1000:5s", "write SHARE:TIME"),
        ("99.9:5", "write SHARE:TIME"),
        ("99.99999:5s", "write SHARE:TIME"),
        ("-1:5s", "write SHARE:TIME"),
        ("٩٩:5s", "write SHARE:TIME"),
        ("0.0000:5s", "write one above 0"),
        ("99.9:0.000s", "write a time above 0"),
    ],
)
def test_other_texts_are_refused_with_what_to_write(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_slo(text)


@given(st.integers(1, WHOLE_PPM - 1), st.integers(1, 999_999))
def test_every_share_below_the_whole_has_a_text(target_ppm: int, limit_ms: int) -> None:
    text = f"{target_ppm // 10_000}.{target_ppm % 10_000:04d}:{limit_ms}ms"
    assert parse_slo(text) == Slo(target_ppm, limit_ms * 10**6)
