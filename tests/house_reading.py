"""House rules for who reads: no sentence that hangs on the one above it, no name that nothing uses, no test that cannot
fail."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from house import Tree, _modules, _nodes

_HANGS = re.compile(r'(?:"""|help=f?")((?:The same|Or|Of|As|So many|That of|And|But)\b[^"\n]{0,40})')
_WORD = re.compile(r"[A-Za-z_]\w*")
_FOUND_BY_PLACE = re.compile(r"(services|examples)/\w+/(rules|http)\.py|router/(core/control|node/questions)/\w+\.py")
"""Files whose classes are found by the file that they stand in."""
_CALLED_BY_OTHERS = frozenset(("_missing_", "before_io_wait", "after_io_wait"))
"""Methods that the standard library or trio calls by their names."""
_PLAIN = ("property", "cached_property", "staticmethod", "classmethod", "cache")
"""Decorators that use a function no more than its name does; others, as a command's, are its use."""

EXPLAINED_LINES = 15
_KNOWN = ("hear", "main")
"""Functions whose name says what they do, wherever they stand."""


def hanging(tree: Tree) -> Iterator[str]:
    """Forbid sentences that need the one above them: an editor, and --help, show each alone."""
    for path, text in tree.items():
        if path.endswith(".py") and not path.startswith("tests/"):
            for line, said in hangs(text):
                yield f"{path}:{line} begins {said!r}: say what it is, so that the sentence stands alone"


def hangs(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and beginning of each sentence that needs the one above it."""
    for found in _HANGS.finditer(text):
        yield text.count("\n", 0, found.end()) + 1, found[1]


def unused(tree: Tree) -> Iterator[str]:
    """Forbid names of the product that stand nowhere but where they are made, not even in a test."""
    counts = Counter(word for path, text in tree.items() if path.endswith(".py") for word in _WORD.findall(text))
    for path, module in _modules(tree):
        for node in _nodes(module) if not path.startswith("tests/") else ():
            for name, line in _names(path, node):
                if counts[name] == 1:
                    yield f"{path}:{line} makes {name}, which nothing uses: remove it"


def _names(path: str, node: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield name and line of what a statement makes and something must use; a decorator may be the use."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        is_free = all(ast.unparse(one) in _PLAIN for one in node.decorator_list)
        if is_free and not node.name.startswith("__") and node.name not in _CALLED_BY_OTHERS:
            yield node.name, node.lineno
    elif isinstance(node, ast.ClassDef):
        if not _FOUND_BY_PLACE.fullmatch(path):
            yield node.name, node.lineno
    elif isinstance(node, ast.Assign):
        yield from ((one.id, one.lineno) for one in node.targets if isinstance(one, ast.Name) and one.id.isupper())


def explained(tree: Tree) -> Iterator[str]:
    """Require a docstring of public functions that are too long to be taken in at a glance."""
    for path, module in _modules(tree):
        if path.startswith(("tests/", "examples/")):
            continue
        classes = [one for one in module.body if isinstance(one, ast.ClassDef) and not one.name.startswith("_")]
        for node in (*module.body, *(inner for one in classes for inner in one.body)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > EXPLAINED_LINES and node.name not in _KNOWN and not ast.get_docstring(node):
                    yield f"{path}:{node.lineno} {node.name} has {lines} lines: say in a docstring what it does"


READING_RULES = (hanging, unused, explained)
