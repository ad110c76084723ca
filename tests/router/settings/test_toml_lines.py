"""Lines of values in a TOML text, against texts that were assembled from known lines."""

from __future__ import annotations

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from router.settings.toml_lines import blocks, line_of, lines, statements

TEXT = '''\
top = 1
"quoted key" = 2

[a]  # comment [b]
x = """
[not]
y = 2"""
y = [
  1, # ]
  [2],
]
z.w = { p = 1, q = 2 }
[[b]]
n = 0
[[b]]
[b.c]
n = 1
[ d . "e" ]
m = '#'
'''


def test_lines_of_values() -> None:
    tomllib.loads(TEXT)
    known = {
        ("top",): 1,
        ("quoted key",): 2,
        ("a",): 4,
        ("a", "x"): 5,
        ("a", "y"): 8,
        ("a", "y", 1, 0): 8,
        ("a", "z", "w", "q"): 12,
        ("b", 0, "n"): 14,
        ("b", 1): 15,
        ("b", 1, "c", "n"): 17,
        ("d", "e", "m"): 19,
    }
    assert {path: line_of(TEXT, path) for path in known} == known


def test_what_is_not_there_is_placed_around() -> None:
    assert line_of(TEXT, ("a", "missing")) == 4
    assert line_of(TEXT, ("b", 1, "c", "missing", 3)) == 16
    assert line_of(TEXT, ("missing",)) is None


def test_blocks() -> None:
    found = blocks("[[p]]\na = 1\n# c\nb = [\n2]\n\n[q]\na = 2\n[[p]]\n", "p")
    assert [(one.first, one.stop, [key.value for key in one.keys]) for one in found] == [
        (0, 5, [{"a": 1}, {"b": [2]}]),
        (8, 9, []),
    ]


@given(st.text("a\n\r\x0b\u2028 ", max_size=20))
def test_lines_lose_nothing(text: str) -> None:
    assert "".join(lines(text)) == text
    assert all(line.count("\n") <= 1 for line in lines(text))


VALUES = st.sampled_from(["1", '"x"', "'#'", '"""a\n\n[b]\n"""', "[1, # ]\n\n2]", "{ a = 1 }", "2020-01-01", "true"])
FILLERS = st.sampled_from(["", "# [x]", "  ", "\t# y = 1"])


@given(st.lists(st.lists(st.tuples(FILLERS, VALUES), max_size=4), max_size=4), st.booleans())
def test_every_value_is_found_where_it_was_put(sections: list[list[tuple[str, str]]], windows: bool) -> None:
    text, known, end = "", {}, "\r\n" if windows else "\n"
    for at, section in enumerate(sections):
        text += f"[[s]]{end}"
        for number, (filler, value) in enumerate(section):
            text += filler + end
            known["s", at, f"k{number}"] = text.count("\n") + 1
            text += f"k{number} = {value}{end}"
    tomllib.loads(text)
    assert {path: line_of(text, path) for path in known} == known
    assert len(list(statements(text))) == len(known) + len(sections)
