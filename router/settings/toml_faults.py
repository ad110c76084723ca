"""What is wrong with a text that is not TOML: our sentence for the parser's, with the place and a remedy."""

from __future__ import annotations

import re
import tomllib

_TWICE = "this is set twice; remove one of the two"
_SECTION_TWICE = "this section stands elsewhere too; put the two together"
_SENTENCES = (
    ("Invalid value", "a value is missing, or is none that TOML knows"),
    ("Expected '=' after a key", "a key needs = and a value behind it"),
    ("Expected newline or end of document", "this line goes on after the setting; write one setting on a line"),
    ("Invalid statement", "this line is neither name = value nor [section]"),
    ("Invalid initial character for a key", "a name is missing, or begins with a character that no name has"),
    ("Unclosed array", "a list lacks its closing ]"),
    ("Unclosed inline table", "a table lacks its closing }"),
    ("Expected ']'", "a section's name lacks its closing ]"),
    ("Unterminated string", "a text lacks its closing quote"),
    ("Illegal character '\\n'", "a text lacks its closing quote"),
    ("Expected '\"'", "a text lacks its closing quote"),
    ("Unescaped '\\'", "a \\ in a text is written \\\\"),
    ("Illegal character", "a character here is not allowed"),
    ("Found invalid character", "a character here is not allowed"),
    ("Cannot overwrite", _TWICE),
    ("Cannot declare", _SECTION_TWICE),
    ("Duplicate", _TWICE),
    ("Cannot mutate", _TWICE),
)  # fmt: skip


def fault_of(error: tomllib.TOMLDecodeError, text: str, file: str) -> str:
    """Return the sentence about the parser's error in this text of that file."""
    found = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", str(error), re.DOTALL)
    rows = text.split("\n")
    line, column = (int(found[2]), int(found[3])) if found else (len(rows), 0)
    said, place = _in_words(found[1] if found else str(error)), f"{file} line {line}"
    if said in (_TWICE, _SECTION_TWICE):
        said = _twice(rows, line - 1) or said
    elif column:
        place, said = f"{place}, column {column}", said + _quoted(rows[line - 1], column - 1)
    return f"{place}: {said}"


def _twice(rows: list[str], at: int) -> str:
    """Return the sentence about a row that repeats the section or setting of an earlier one, or ""."""
    header = re.match(r"\s*(\[[^\[\]]+\])", rows[at])
    named = header or re.match(r"\s*([\w.\"'-]+)\s*=", rows[at])
    if named is None:
        return ""
    wanted = re.compile(rf"\s*{re.escape(named[1])}\s*(?:#|$)" if header else rf"\s*{re.escape(named[1])}\s*=")
    for earlier in range(at - 1, -1, -1):
        if wanted.match(rows[earlier]):
            if header:
                said = f"the section {named[1]} stands in line {earlier + 1} already"
                return f"{said}; move the lines below this one there, and remove this one"
            return f"{named[1]} is set in line {earlier + 1} already; remove one of the two"
        if not header and rows[earlier].lstrip().startswith("["):
            break
    return ""


def _in_words(said: str) -> str:
    """Return our sentence for one of the parser's, or the parser's if we have none."""
    return next((ours for beginning, ours in _SENTENCES if said.startswith(beginning)), said)


def _quoted(line: str, at: int) -> str:
    """Return the remedy if a word without quotes stands at that column, "" otherwise."""
    word = re.match(r"[A-Za-z][^\s,#\]}\"']*", line[at:])
    if word is None or "=" not in line[:at]:
        return ""
    lower = word[0].lower()
    return f"; write {lower}" if lower in ("true", "false") else f'; write text in quotes: "{word[0][:60]}"'
