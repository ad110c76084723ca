"""The house rules as functions of the source tree: each yields the places that break it, with the remedy."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple, TypeGuard

from house_debts import HOOKED, LONG, SHARED_NAMES
from rigs.patience import HANG_S

_PURE = """
    __future__ abc array base64 binascii bisect blake3 cbor2 collections contextlib dataclasses datetime enum
    fractions functools h11 hashlib heapq hmac io ipaddress itertools json math msgspec nacl operator re
    statistics string struct textwrap types typing unicodedata urllib wsproto zlib
"""
PURE = _PURE.split()
FINDS = ("importlib", "pkgutil")  # for the one file that finds modules by name, see `BY_NAME`
NUMERIC = ("numpy",)  # for the rules of services: it computes, and does nothing else; the router's core goes without it
_SERVICES = (  # the wire, its tables, contract, client, overview, the command line's kit, private files, rig, bench
    r"router(\.(core\.((wire|service)\..*|link\.(allowance|machine|table))|client(\..*)?|service(\..*)?|overview(\..*)?"
    r"|cli(\.(ask|command|conditions|conformance|exits|invite|loop|output|qr|services|spans|streams))?|disk\.(private_file|state\..*)|actors\.process"
    r"|rig\.(ending|node|process|socket_room)|bench\.(goal|report)))?"
    r"|services\.OWN(\..*)?"
)
LAYERS: list[tuple[str, str, list[str]]] = [  # room; our modules it may import; others' modules (none: any)
    ("router/core/", r"router\.(core(\..*)?|service\.verbs\..*)", [*PURE, *FINDS]),
    ("router/audit/", r"(router|spark_analytics)(\..*)?", []),
    ("router/disk/log/", r"router(\..*)?|spark_analytics\.judgement\.(line_grammar|schema)", []),
    ("router/", r"router(\..*)?", []),
    ("transports/", r"router\.(core|transport)\..*", []),
    ("services/web/", rf"{_SERVICES}|spark_analytics\.report\.(page\..*|reasons)", []),  # parts of the audit's page
    ("services/", _SERVICES, []),
    ("spark_analytics/", r"spark_analytics(\..*)?", ["pyspark", *sys.stdlib_module_names]),
]
FLOORS = [  # rooms from the ground up: each may import from those below it, and from itself
    "spark_analytics/judgement/", "spark_analytics/report/", "spark_analytics/batch/", "spark_analytics/stream/",
    "router/core/wire/", "router/core/link/ router/core/log/", "router/core/why/ router/core/service/",
    "router/service/verbs/", "router/overview/",
    "router/core/neighbours/", "router/core/routing/", "router/core/control/", "router/core/router.py",
    "router/disk/store/", "router/disk/state/", "router/disk/log/", "router/disk/snapshot/", "router/transport/",
    "router/settings/", "router/actors/", "router/client/", "router/service/", "router/cli/", "router/why/",
    "router/node/", "router/audit/ router/doctor/", "router/rig/", "router/demo/", "router/chaos/", "router/bench/",
]  # fmt: skip
OURS = re.compile(r"(router|transports|services|spark_analytics|release|tests|examples)(\..*)?")
BY_NAME = re.compile(
    r"router/(core/control/verb_finder|service/plugins|settings/config_services|cli/__init__|transport/contract)\.py"
    r"|router/node/questions/finder\.py|(tests|examples)/.*"
)  # may find modules by name: of services, commands, transports and operators' questions, each added as a file
LATE = re.compile(  # file:function that may import when called
    r"(router/cli/|tests/|examples/).*|router/(\w+/)+command\.py:.*|router/why/offline\.py:.*|.*:_?load\w*"
)
SHIPS = re.compile(
    r"router/(node/(cycle|housekeeping)|core/router)\.py|router/core/(neighbours|routing|control)/.*"
    r"|(services|examples)/\w+/(core/|rules).*"
)
SCHEME = re.compile(r"(tls|unix|memory|wss?|lan):")
SCHEMELESS = re.compile(r"router/(node|transport|core)/.*\.py|router/cli/preflight\.py|transports/.*\.py")
_CONTRACT = "contract|http|kept_rows|pages|parts|roles|roles/.*|verbs/.*"
_RULES = r"(services|examples)/\w+/(core/.*|rules\w*|http)\.py"
PURE_RULES = re.compile(rf"{_RULES}|router/(service/({_CONTRACT})|overview/.*)\.py")
RULES_KNOW = re.compile(rf"router\.(core\..*|overview\..*|service(\.({_CONTRACT.replace('/', '[.]')}))?)")
IMPURE = re.compile(r"open|print|input|exec|eval|(.*\.)?(datetime|date)\.(now|utcnow|today|fromtimestamp)")
SWALLOWED = re.compile(r"except( (Base)?Exception( as \w+)?)?:\s+(pass|\.\.\.)|(.*\.)?suppress\((Base)?Exception\)")
NOUNLESS = re.compile(r"(.*/)?(utils?|helpers?|common|managers?|base|misc)(\.\w+|/.*)")
FOREIGN = re.compile(r"\b(TO()DO|FIX()ME)\b|pypi()\.org|python()hosted|/ro()ot/|/wo()rk/|/opt()/(pypi|wheels)")
OTHERS = "services/web/static/vendor/"
"""Where the work of others lies as it was handed out."""
UNFINISHED = re.compile(r"\b(TO()DO|FIX()ME)\b")
NAMED = re.compile(r"\b(PUBSUB|DISCOVERY|service_called)\b")
LIMITS = re.compile(r"(\w*Limits|BackOff)(\.\w+)?")  # the limits with which a part is made
HOOKLESS = re.compile(r"router/(client|core)/.*\.py")
LINES_MAX = 500
CLASS_LINES_MAX, FUNCTION_LINES_MAX, PARAMETERS_MAX = 300, 40, 9
VERB_FILES_MAX = 2

Tree = dict[str, str]
"""A file's text, by its path."""


class Import(NamedTuple):
    """An import of `module` by the file `path` at `line`; `within`: the function that imports when called, "" at the
    top level."""

    path: str
    module: str
    line: int
    within: str


@cache
def read(root: Path) -> Tree:
    """Return the files that git tracks or would add; without git, all files that are not hidden."""
    paths = [str(path.relative_to(root)) for way in ("[!.]*", "[!.]*/**/*") for path in root.glob(way)]
    if (root / ".git").exists():
        git = ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard"]
        paths = subprocess.run(git, capture_output=True, text=True, check=True).stdout.splitlines()
    return {path: (root / path).read_text(errors="ignore") for path in paths if (root / path).is_file()}


_parse = cache(ast.parse)


@cache
def _nodes(module: ast.Module) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(module))


def _modules(tree: Tree) -> Iterator[tuple[str, ast.Module]]:
    return ((path, _parse(text, path)) for path, text in tree.items() if path.endswith(".py"))


def _name(path: str) -> str:
    return re.sub(r"(/__init__)?\.py$", "", path).replace("/", ".")


def _imports(tree: Tree) -> tuple[Import, ...]:
    known = frozenset(_name(path) for path, _ in _modules(tree))
    return tuple(found for path, module in _modules(tree) for found in _imports_of(module, path, known))


@cache
def _imports_of(module: ast.Module, path: str, known: frozenset[str]) -> tuple[Import, ...]:
    return tuple(_imports_below(module, path, known, ""))


def _imports_below(node: ast.AST, path: str, known: frozenset[str], within: str) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(path, alias.name, child.lineno, within) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            above = path.split("/")[: -child.level] if child.level else []
            package = ".".join([*above, *([child.module] if child.module else [])])
            for alias in child.names:
                inside = f"{package}.{alias.name}"
                yield Import(path, inside if inside in known else package, child.lineno, within)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _imports_below(child, path, known, within or child.name)
        elif isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from _imports_below(child, path, known, within)


def forget() -> None:
    """Let go of what was read: half a gigabyte, through which every collection of garbage would go."""
    for one in (read, _parse, _nodes, _imports_of):
        one.cache_clear()


def layers(tree: Tree) -> Iterator[str]:
    for path, module, line, _ in _imports(tree):
        who, ours, others = next((row for row in LAYERS if path.startswith(row[0])), ("", ".*", []))
        ours = ours.replace("OWN", _name(path).partition(".")[2].partition(".")[0])
        at = f"{path}:{line} imports {module}"
        if OURS.fullmatch(module) and not re.fullmatch(ours, module):
            yield f"{at}, but {who} may know only {ours}: let node join the two"
        elif not OURS.fullmatch(module) and others and module.partition(".")[0] not in others:
            yield f"{at}, which is not among what {who} may use: take what it gives as an argument"
        elif re.fullmatch(r"importlib(\.util)?", module) and not BY_NAME.fullmatch(path):
            yield f"{at}: only node, transport and cli find modules by name; import it plainly"


def _floor(module: str) -> tuple[int, str] | None:
    place = module.replace(".", "/")
    rooms = ((height, room) for height, names in enumerate(FLOORS) for room in names.split())
    return next((found for found in rooms if f"{place}/".startswith(found[1]) or f"{place}.py" == found[1]), None)


def floors(tree: Tree) -> Iterator[str]:
    """Forbid imports from a higher room or another room of the same floor; Spark's rooms stand apart."""
    for path, module, line, _ in _imports(tree):
        own, other = _floor(_name(path)), _floor(module)
        if own and other and own != other and own[0] <= other[0]:
            yield f"{path}:{line} imports {module}, which does not stand below {own[1]}: pass it as an argument"


def parameters(tree: Tree) -> Iterator[str]:
    """Limit the parameters of functions in the core, and forbid closures in its composition: what several parts share
    is one value, and what a part needs is given to it."""
    for path, module in _modules(tree):
        for node in _nodes(module) if path.startswith("router/core/") else ():
            if isinstance(node, ast.Lambda) and path == "router/core/router.py":
                yield f"{path}:{node.lineno} closes over what another part needs: give it the part"
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = [one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                if len(given) - (given[:1] in (["self"], ["cls"])) > PARAMETERS_MAX:
                    yield f"{path}:{node.lineno} {node.name} takes {len(given)} parameters: find the value they are"


def late_imports(tree: Tree) -> Iterator[str]:
    for path, module, line, within in _imports(tree):
        if within and not LATE.fullmatch(f"{path}:{within}"):
            yield f"{path}:{line} {within}() imports {module}: do it at the top, or name the function load…"


def purity(tree: Tree) -> Iterator[str]:
    """Forbid side effects in code that decides: the core, the rules of services, and the contract they are written
    with."""
    for path, module in _modules(tree):
        if PURE_RULES.fullmatch(path):
            yield from _impure_imports(path, module)
        for node in _nodes(module) if path.startswith("router/core/") or PURE_RULES.fullmatch(path) else ():
            if isinstance(node, ast.Call) and IMPURE.fullmatch(called := _called(node)):
                yield f"{path}:{node.lineno} calls {called}(): take what it gives as an argument"


def _impure_imports(path: str, module: ast.Module) -> Iterator[str]:
    own = _name(path).rpartition(".")[0].removeprefix("examples.").removesuffix(".core")
    for found in _imports_of(module, path, frozenset()):
        top, at = found.module.partition(".")[0], f"{path}:{found.line} imports {found.module}"
        if top == "router" and not RULES_KNOW.fullmatch(found.module):
            yield f"{at}: rules know the wire and router.service.contract; let the host do the rest"
        elif top not in (*PURE, *NUMERIC, "router", "spark_analytics", own.partition(".")[0]):
            yield f"{at}, which is not pure: take what it gives as an argument"


def schemes(tree: Tree) -> Iterator[str]:
    """Forbid naming a transport in the node, in the checks of the configuration, and in other transports."""
    for path, module in _modules(tree):
        if not SCHEMELESS.fullmatch(path):
            continue
        own = path.rpartition("/")[2].removesuffix(".py")
        docs = {id(one.body[0].value) for one in _nodes(module) if _has_docstring(one)}  # type: ignore[attr-defined]
        for node in _nodes(module):
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if SCHEME.match(text) and " " not in text and id(node) not in docs and text.partition(":")[0] != own:
                yield f"{path}:{node.lineno} names the scheme of {text!r}: ask the transport that the URL names"  # type: ignore[attr-defined]


def verbs(tree: Tree) -> Iterator[str]:
    """Allow the word of a service's verb in two files: wherever else an inquiry is made or heard, its class names it.

    The same string elsewhere, as the state of a message, is another word."""
    found, declared = dict[str, dict[str, int]](), set[str]()
    for path, module in _modules(tree):
        for node in _nodes(module) if path.startswith("router/") else ():
            for word in _words_of_inquiries(node):
                found.setdefault(word, {}).setdefault(path, node.lineno)  # type: ignore[attr-defined]
                declared |= {word} if path.startswith("router/service/verbs/") else set()
    for word in sorted(declared):
        for path, line in list(found[word].items())[VERB_FILES_MAX:]:
            yield f"{path}:{line} spells the verb {word!r}, as {VERB_FILES_MAX} files do already: name its class"


def _words_of_inquiries(node: ast.AST) -> Iterator[str]:
    """Yield the strings that stand where the word of an inquiry does: as `WORD`, in a call, or compared with `ask`."""
    places: list[ast.expr | None] = []
    match node:
        case ast.AnnAssign(target=ast.Name("WORD")) | ast.Assign(targets=[ast.Name("WORD")]):
            places = [node.value]
        case ast.Call() if _called(node).rpartition(".")[2] in ("Inquiry", "ask"):
            places = list(node.args)
        case ast.Compare() if any(isinstance(one, ast.Attribute) and one.attr == "ask" for one in ast.walk(node)):
            places = [one for one in ast.walk(node) if isinstance(one, ast.Constant)]
    yield from (one.value for one in places if isinstance(one, ast.Constant) and isinstance(one.value, str))


def roles(tree: Tree) -> Iterator[str]:
    """Forbid the core to know a service by its name."""
    for path, text in tree.items():
        for number, line in enumerate(text.splitlines(), 1) if path.startswith("router/core/") else ():
            if found := NAMED.search(line):
                yield f"{path}:{number} {found[0]}: a service has a role, whatever its name is (core/service/roles.py)"


def worlds(tree: Tree) -> Iterator[str]:
    """Require the simulated world to run the cycle and the rules that ship: it defines no class of these names."""
    ships = {
        one.name: path for path, module in _modules(tree) if SHIPS.fullmatch(path)
        for one in module.body if isinstance(one, ast.ClassDef)
    }  # fmt: skip
    for path, module in _modules(tree):
        for one in _nodes(module) if path.startswith("tests/world/") else ():
            if isinstance(one, ast.ClassDef) and one.name in ships:
                yield f"{path}:{one.lineno} defines {one.name}, which ships in {ships[one.name]}: import it"


def _has_docstring(node: ast.AST) -> bool:
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return isinstance(node, kinds) and ast.get_docstring(node) is not None


def circles(tree: Tree) -> Iterator[str]:
    graph = {_name(path): set[str]() for path, _ in _modules(tree)}
    for path, module, _, within in _imports(tree):
        if not within and module in graph and module != _name(path):
            graph[_name(path)].add(module)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        ring = " <- ".join(error.args[1])
        yield f"{ring}: a circle of imports; give what both need a file of its own, or tell, do not call"


def hooks(tree: Tree) -> Iterator[str]:
    """Forbid assignments to an attribute of a part, but for those of `HOOKED`, which may only shrink."""
    for path, line, part in hooked(tree):
        if f"{path}:{part}" not in HOOKED:
            yield f"{path}:{line} assigns to an attribute of self.{part}: make the part with it, or pass it with a call"


def hooked(tree: Tree) -> Iterator[tuple[str, int, str]]:
    """Return path, line, and name of the part of each `self.part.attribute = …`; counting with `+=` is none."""
    for path, module in _modules(tree):
        assigned = [one for one in _nodes(module) if isinstance(one, ast.Assign)] if HOOKLESS.fullmatch(path) else []
        for target in (inner for one in assigned for each in one.targets for inner in ast.walk(each)):
            if isinstance(target, ast.Attribute) and isinstance(target.ctx, ast.Store):
                first, _, part = ast.unparse(target.value).partition(".")
                if first == "self" and part:
                    yield path, target.lineno, part


def sizes(tree: Tree) -> Iterator[str]:
    """Limit files, classes and functions, but for those of `LONG`, which may only shrink."""
    for path, text in tree.items():
        is_ours = path.endswith((".py", ".js")) and not path.startswith(OTHERS)
        if is_ours and path not in LONG and (lines := text.count("\n")) > LINES_MAX:
            yield f"{path} has {lines} lines, over {LINES_MAX}: a second noun is hiding in it, give it a file"
    for path, module in _product(tree):
        for node in _nodes(module):
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            most = CLASS_LINES_MAX if isinstance(node, ast.ClassDef) else FUNCTION_LINES_MAX
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > most and f"{path}:{node.name}" not in LONG:
                yield f"{path}:{node.lineno} {node.name} has {lines} lines, over {most}: give a part of it a name"


def tables(tree: Tree) -> Iterator[str]:
    """Allow a layout by hand for tables of data alone: literals given a name at the top of a module or class."""
    for path, module in _product(tree):
        lines = tree[path].split("\n")
        by_hand = {number for number, line in enumerate(lines, 1) if line.endswith("# fmt: skip")}
        named = [node for one in _nodes(module) if isinstance(one, ast.Module | ast.ClassDef) for node in one.body]
        data = {node.end_lineno for node in named if isinstance(node, ast.Assign | ast.AnnAssign)}
        for number in sorted(by_hand - data):
            yield f"{path}:{number} is laid out by hand and is no table of data: let the formatter do it"


def _product(tree: Tree) -> Iterator[tuple[str, ast.Module]]:
    return ((path, module) for path, module in _modules(tree) if not path.startswith("tests/"))


def names(tree: Tree) -> Iterator[str]:
    for path in (one for one in tree if NOUNLESS.fullmatch(one) and not one.startswith(OTHERS)):
        yield f"{path}: this name says nothing; find the noun of what is in it"


def shared_names(tree: Tree) -> Iterator[str]:
    """Give a public class name to one thing in each room, but for those of `SHARED_NAMES`, which may only shrink."""
    for room, name, places in shared(tree):
        if name not in SHARED_NAMES.get(room, "").split():
            yield f"{places[-1]} defines {name}, as {places[0]} does: find the word for what this one is"


def shared(tree: Tree) -> Iterator[tuple[str, str, list[str]]]:
    """Return room, name, and files of each public class that several files of the router, or of a service, define."""
    places: dict[tuple[str, str], list[str]] = {}
    for path, module in _modules(tree):
        room = re.match(r"router(?=/)|services/\w+", path)
        for one in module.body if room else ():
            if room and isinstance(one, ast.ClassDef) and not one.name.startswith("_"):
                places.setdefault((room[0], one.name), []).append(path)
    return ((room, name, found) for (room, name), found in places.items() if len(found) > 1)


def words(tree: Tree) -> Iterator[str]:
    for path, text in tree.items():
        for number, line in enumerate(text.splitlines(), 1):
            if path.startswith(OTHERS) and UNFINISHED.search(line):
                continue
            if found := FOREIGN.search(line):
                yield f"{path}:{number} {found[0]!r}: finish it; name no registry, no place on one machine"


def swallowing(tree: Tree) -> Iterator[str]:
    for path, module in _modules(tree):
        for node in _nodes(module):
            if _may_swallow(node) and SWALLOWED.fullmatch(ast.unparse(node)):
                yield f"{path}:{node.lineno} hides every error: catch what you can name, or log it"


def certainties(tree: Tree) -> Iterator[str]:
    """Forbid assertions that cannot fail: of a list, tuple or generator itself, and not of what is in it."""
    for path, module in _modules(tree):
        for node in _nodes(module):
            if isinstance(node, ast.Assert) and _is_certain(node.test):
                yield f"{path}:{node.lineno} asserts what is always true: use all() or any(), or compare it"


def _is_certain(test: ast.expr) -> bool:
    if isinstance(test, ast.ListComp):
        return not any(one.ifs for one in test.generators)
    given = test.elts if isinstance(test, ast.List | ast.Tuple) else ()
    return isinstance(test, ast.GeneratorExp) or not all(isinstance(one, ast.Starred) for one in given)


def _may_swallow(node: ast.AST) -> TypeGuard[ast.ExceptHandler | ast.Call]:
    """Whether it is worth the time to unparse this node."""
    if isinstance(node, ast.ExceptHandler):
        return len(node.body) == 1 and isinstance(node.body[0], ast.Pass | ast.Expr)
    return isinstance(node, ast.Call) and _called(node).rpartition(".")[2] == "suppress"


def _called(call: ast.Call) -> str:
    """Return the dotted name of the function that is called; for another expression, its last part."""
    parts: list[str] = []
    function = call.func
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    parts.append(function.id if isinstance(function, ast.Name) else "")
    return ".".join(reversed(parts))


def docstrings(tree: Tree) -> Iterator[str]:
    for path, module in _modules(tree):
        if not ast.get_docstring(module):
            yield f"{path}:1 does not say what it is for: open it with one sentence, its duty"


def limits_once(tree: Tree) -> Iterator[str]:
    """Forbid a second default: a limit of a part that the node takes from a setting has its default there only."""
    settings, parts = _written_here(tree, "router/settings/.*"), _written_here(tree, "router/(?!settings/).*")
    for path, module in _modules(tree):
        nodes = _nodes(module) if path.startswith("router/node/") else ()
        imports = [name for node in nodes if isinstance(node, ast.ImportFrom) for name in node.names]
        bare = {name.asname: name.name for name in imports if name.asname}
        for call in nodes:
            if not isinstance(call, ast.Call) or not (made := LIMITS.fullmatch(_called(call))):
                continue
            if call.args:
                yield f"{path}:{call.lineno} gives limits to {made[0]} by position: name each, to have it followed"
            for given in call.keywords if not made[2] else ():
                section, _, setting = ast.unparse(given.value).rpartition(".")
                first = settings.get((section.rpartition(".")[2].capitalize(), setting))
                second = parts.get((bare.get(made[1], made[1]), given.arg or ""))
                if first and second:
                    yield f"{path}:{call.lineno} {given.arg} has a default in {first} and in {second}: keep one"


def hurry(tree: Tree) -> Iterator[str]:
    """Forbid tests that fail because a machine is slow; a test whose clock is its own may depend on it."""
    for path, module in _modules(tree):
        if not path.startswith("tests/"):
            continue
        functions = [one for one in _nodes(module) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
        own = [one for one in functions if any(given.arg == "autojump_clock" for given in one.args.args)]
        timed = {id(node) for one in own for node in ast.walk(one)}
        for node in _nodes(module):
            if isinstance(node, ast.Call) and id(node) not in timed:
                limits = [one.value for one in node.keywords if one.arg == "timeout"]
                limits += node.args if _called(node) == "trio.fail_after" else []
                numbers = [one.value for one in limits if isinstance(one, ast.Constant)]
                if any(isinstance(one, int | float) and one < HANG_S for one in numbers):
                    yield f"{path}:{node.lineno} gives up too soon for a slow machine: wait for HANG_S of rigs.patience"


def _written_here(tree: Tree, room: str) -> dict[tuple[str, str], str]:
    """Return the place of each field's default, by class and field, except for those taken from another object."""
    return {
        (one.name, ast.unparse(field.target)): f"{path}:{field.lineno}"
        for path, module in _modules(tree)
        if re.fullmatch(room, path)
        for one in _nodes(module)
        if isinstance(one, ast.ClassDef)
        for field in one.body
        if isinstance(field, ast.AnnAssign) and field.value
        if not any(isinstance(part, ast.Attribute) for part in ast.walk(field.value))
    }


RULES = (
    certainties,
    layers,
    floors,
    parameters,
    late_imports,
    purity,
    schemes,
    verbs,
    roles,
    circles,
    hooks,
    sizes,
    tables,
    names,
    shared_names,
    words,
    swallowing,
    docstrings,
    limits_once,
    hurry,
    worlds,
)
