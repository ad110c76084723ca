"""`router.toml`: defaults, the sample, errors with remedies, and origins of settings."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect

from router.core.wire.crypto import SigningKey
from router.core.wire.text import key_text
from router.settings import config
from router.settings.config import Config, check, edit_peers, load, sample, show
from router.settings.config_peers import AddPeer, Peer
from router.settings.config_services import service_name
from router.settings.config_text import ConfigError, Problem

KEYS = [SigningKey(bytes([n]) * 32).public for n in range(2)]
A, B = (key_text("addr", key) for key in KEYS)


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "router.toml"
    path.write_text(text)
    return path


def problems(tmp_path: Path, text: str) -> list[str]:
    return check(written(tmp_path, text))


# Defaults and the sample


def test_a_missing_file_means_defaults(tmp_path: Path) -> None:
    got, origins = load(tmp_path / "router.toml")
    assert got == config.by_role(Config())
    assert set(origins.values()) == {"default"}


@pytest.mark.parametrize("role", ["edge", "core"])
def test_the_sample_says_the_defaults(tmp_path: Path, role: config.Role) -> None:
    got, origins = load(written(tmp_path, sample(role)))
    assert got == config.by_role(Config(node=config.Node(role=role)))
    assert [name for name, origin in origins.items() if origin != "default"] == ["node.role"]


def test_the_sample_without_its_comment_marks_says_the_same(tmp_path: Path) -> None:
    settings_only = sample().partition("#[[")[0]
    text = re.sub(r"^#(?=[a-z])", "", settings_only, flags=re.MULTILINE)
    got, origins = load(written(tmp_path, text))
    assert got == load(tmp_path / "missing")[0]
    assert set(origins.values()) == {"router.toml"}


def test_every_setting_stands_in_the_sample_with_its_sentence() -> None:
    text = " ".join(sample().replace("\n# ", " ").split())
    for one in show(Config(), {}):
        key = one.name.rpartition(".")[2]
        assert re.search(rf"#?{key} = ", text)
        assert one.about and one.about[-1] in ".:", one.name
        assert one.about in text, one.name


def test_every_number_has_a_range_a_unit_and_a_default_within() -> None:
    described = inspect.type_info(Config)
    assert isinstance(described, inspect.StructType)
    units = re.compile(
        r"(_s|_bytes|_messages|_percent|_per_s|_min|attempts|connections|handshakes|groups|services|invitations|routes"
        r"|index|recent|pulls|introductions|learned|guests|peers|dials|items|verifiers|keep|_ids|messages|signatures)(_|$)"
    )
    for section in described.fields:
        if not isinstance(section.type, inspect.StructType):
            continue
        for one in section.type.fields:
            kind = one.type.type if isinstance(one.type, inspect.Metadata) else one.type
            if isinstance(kind, inspect.IntType | inspect.FloatType):
                assert kind.ge is not None and kind.le is not None, one.name
                assert kind.ge <= one.default <= kind.le, one.name
                assert units.search(f"_{one.name}"), one.name


def test_what_the_role_decides() -> None:
    edge = config.by_role(Config())
    core = config.by_role(Config(node=config.Node(role="core")))
    assert edge.node.listen == ("unix:router.sock",)
    assert core.node.listen == ("unix:router.sock", "tls://127.0.0.1:4100")
    assert (edge.node.accept, core.node.accept) == ("known", "anyone")
    assert (edge.log.keep_s, core.log.keep_s) == (7 * 86_400, 30 * 86_400)
    assert (edge.log.keep_bytes, core.log.keep_bytes) == (64 << 20, 10 << 30)
    assert config.by_role(core) == core


def test_the_owners_socket_is_always_there(tmp_path: Path) -> None:
    got, _ = load(tmp_path / "none", {"node.listen": ["tls://0.0.0.0:1"]})
    assert got.node.listen == ("unix:router.sock", "tls://0.0.0.0:1")


# Origins


def test_origins(tmp_path: Path) -> None:
    path = written(tmp_path, f'[limits]\nhello_s = 3\nwindow_messages = 5\n[[peers]]\naddress = "{A}"\n')
    got, origins = load(path, {"limits.hello_s": 4.0, "node.listen": ("tls://[::]:0",)})
    assert (got.limits.hello_s, got.limits.window_messages) == (4.0, 5)
    assert origins["limits.hello_s"] == origins["node.listen"] == "flag"
    assert origins["limits.window_messages"] == origins["peers[0].address"] == "router.toml"
    assert origins["limits.window_bytes"] == origins["peers[0].name"] == "default"
    rows = {one.name: one for one in show(got, origins)}
    assert rows.keys() == origins.keys()
    assert rows["limits.hello_s"][1:3] == (4.0, "flag")
    assert rows["peers[0].address"].value == KEYS[0]


def test_a_wrong_flag_is_told_apart_from_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(written(tmp_path, ""), {"node.role": "egde", "node.listne": []})
    assert caught.value.problems == (
        'command line: node.role is "egde"; it must be "core" or "edge"; did you mean "edge"?',
        "command line: unknown key `node.listne`; did you mean `listen`?",
    )


def test_a_flag_for_a_service_beside_its_section_is_judged_as_a_flag(tmp_path: Path) -> None:
    file = written(tmp_path, '[node]\nservices = ["services.echo"]\n\n[services.echo]\ntimes = 3\n')
    flags = {"services.echo.loud": True}

    def rule(config: Config) -> Iterator[Problem]:
        return (Problem(("services", "echo", key), f"{key} is wrong") for key in config.services["echo"])

    assert load(file, flags)[0].services == {"echo": {"times": 3, "loud": True}}
    with pytest.raises(ConfigError) as caught:
        load(file, flags, (rule,))
    assert caught.value.problems == ("command line: loud is wrong", "router.toml line 5: times is wrong")


def test_a_flag_does_not_hide_a_broken_section(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="line 1: node is 3; it must be a section"):
        load(written(tmp_path, "node = 3\n"), {"node.role": "core"})


# Errors


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[limits]\n\nwindw_messages = 3",
            "router.toml line 3: unknown key `limits.windw_messages`; did you mean `window_messages`?",
        ),
        ("[limts]\nhello_s = 1", "router.toml line 1: unknown key `limts`; did you mean `limits`?"),
        (
            "[node]\nidle_close_s = 1",
            "line 2: unknown key `node.idle_close_s`; did you mean `link.idle_close_s`?",
        ),
        ("[verify]\nzzz = 1", "line 2: unknown key `verify.zzz`; known here: verifiers"),
        ("[verify]\nvirus = 1", "line 2: unknown key `verify.virus`; known here: verifiers"),
        ("limits.window_messages = -3", "line 1: limits.window_messages is -3; it must be at least 1"),
        ("[queues]\nshare_percent = 101", "line 2: queues.share_percent is 101; it must be at most 100"),
        ("[link]\nping_s = 0.5", "line 2: link.ping_s is 0.5; it must be at least 1"),
        ("[link]\nping_s = nan", "line 2: link.ping_s is nan; it must be at least 1"),
        ("[link]\nping_s = true", "line 2: link.ping_s is true; it must be a number"),
        ("[limits]\nhello_s = inf", "line 2: limits.hello_s is inf; it must be at most 600"),
        (
            "[limits]\nwindow_messages = true",
            "line 2: limits.window_messages is true; it must be a whole number",
        ),
        (
            "[limits]\nframe_bytes_max = '1 MiB'",
            'line 2: limits.frame_bytes_max is "1 MiB"; it must be a whole number',
        ),
        ("[limits]\nroutes_max = 2020-01-01", "is the date or time 2020-01-01; it must be a whole number"),
        ("[limits]\nroutes_max = 99999999999999999999999", "line 2: limits.routes_max is 99_999_"),
        ("limits = 3", "line 1: limits is 3; it must be a section of its own, in [ ]"),
        ("[node]\nlisten = 'tls://a:1'", 'line 2: node.listen is "tls://a:1"; it must be a list in [ ]'),
        (
            "[node]\nlisten = [\n  'tls://a:1',\n  'foo',\n]",
            'line 2: node.listen[1] is "foo"; it must be tls://HOST:PORT, wss://HOST/PATH or unix:PATH',
        ),
        ("[node]\nname = '../x'", "must be 1 to 64 letters"),
        ("[node]\naccept = 'all'", 'line 2: node.accept is "all"; it must be "anyone" or "known"'),
        ("[store]\ndurability = 1", 'line 2: store.durability is 1; it must be "synced" or "unsynced"'),
        ("[[peers]]\naddress = 'addr1x'", "line 2: peers[0].address: "),
        ("[[peers]]\naddress = 3", "line 2: peers[0].address is 3; it must be an address, as text in quotes"),
        ("[[peers]]\nname = 'x'", "line 1: peers[0] has no `address`; add a line for it"),
        (f"[[peers]]\naddress = '{A}'\nuplink = 1", "line 3: peers[0].uplink is 1; it must be true or false"),
        (f"[[peers]]\naddress = '{A}'\ngrant = ['jion']", 'did you mean "join"?'),
        (f"[[peers]]\naddress = '{A}'\nuplink = true", "line 3: peers[0] is an uplink but has no urls; add"),
        (
            f"[[peers]]\naddress = '{A}'\n[[peers]]\naddress = '{KEYS[0].hex()}'",
            f"line 4: peers[1].address {A} stands in peers[0] already; keep one",
        ),
        (
            f"[[local]]\nname = 'x'\naddress = '{A}'\n[[peers]]\nname = 'x'\naddress = '{B}'",
            'line 5: peers[0].name "x" is the name of local[0] already; choose another',
        ),
        ("[link]\ndial_backoff_s_min = 90", "line 2: link.dial_backoff_s_min is 90.0; it must not be above"),
        (
            "[store]\nmap_bytes_max = 1048576",
            "line 2: store.map_bytes_max is 1_048_576; it must be 0 or at least",
        ),
        ("[defaults]\nexpiry_min = 20000", "line 2: defaults.expiry_min is 20000; it must be at most 10080"),
        ("[node]\nservices = ['a.x', 'a.invited']", 'line 2: node.services: a service cannot be called "invited"'),
        ("[node]\nservices = ['a.x', 'b:x', 'c.b']", 'line 2: node.services names "b" twice'),
        ("[node]\nservices = ['a-x']", "it must be a module, or module:Class"),
        (
            "[services.ecko]\na = 1",
            'services.ecko is about a service "ecko" that node.services does not name',
        ),
        ("[services]\necho = 1", "line 2: services.echo is 1; it must be a section of its own, in [ ]"),
        (
            "[node]\n\nrole = edge",
            'toml line 3, column 8: a value is missing, or is none that TOML knows; write text in quotes: "edge"',
        ),
        (
            "[node]\nrole = 'edge'\nrole = 'core'",
            "router.toml line 3: role is set in line 2 already; remove one of the two",
        ),
        (
            "[node]\nrole = 'edge'\n[link]\n[node]  # again\nservices = []",
            "router.toml line 4: the section [node] stands in line 1 already; move the lines below this one there, and",
        ),
        ("[node]\n[link]\n[node.x]\n[ node ]", "router.toml line 4: this section stands elsewhere too; put"),
        ("[node]\nlisten = [", "router.toml line 2: "),
    ],
)
def test_a_mistake_is_named_with_line_value_and_remedy(tmp_path: Path, text: str, said: str) -> None:
    found = problems(tmp_path, text)
    assert len(found) == 1
    assert said in found[0]
    assert "\n" not in found[0]


def test_all_mistakes_come_at_once_in_the_order_of_their_lines(tmp_path: Path) -> None:
    found = problems(tmp_path, "[link]\nzz = 1\n[limits]\nhello_s = 0\n[node]\nrole = 'x'\n")
    assert [re.match(r"router.toml line (\d)", one)[1] for one in found] == ["2", "4", "6"]  # type: ignore[index]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "router.toml"
    path.write_bytes(b"[node]\nname = '\xff'\n")
    assert check(path) == ["router.toml line 2: not UTF-8 text; save the file as UTF-8"]
    assert "cannot be read: Is a directory" in check(tmp_path)[0]


def test_a_byte_order_mark_is_no_part_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "")
    path.write_bytes(codecs.BOM_UTF8 + b'[node]\r\nrole = "core"\r\n')
    assert check(path) == [] and load(path)[0].node.role == "core"
    edit_peers(path, AddPeer(Peer(address=KEYS[0])))
    assert path.read_text().startswith("[node]") and load(path)[0].peers[0].address == KEYS[0]
    path.write_bytes(codecs.BOM_UTF8 + b"rolle = 1\n")
    assert check(path)[0].startswith("router.toml line 1: ")


def test_a_link_to_a_file_that_is_not_there_is_no_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "router.toml"
    path.symlink_to("dotfiles/router.toml")
    remedy = "make that file, or remove the link to go on with the defaults"
    assert check(path) == [f"{path} is a symbolic link to dotfiles/router.toml, which is not there; {remedy}"]
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles" / "router.toml").touch()
    assert check(path) == []


DEEP = {
    "lists": "[node]\nname = " + "[" * 5000 + "]" * 5000,
    "tables": "[services.x]\na = " + "{a = " * 5000 + "1" + "}" * 5000,
    "dots": ".".join("a" * 5000) + " = 1",
    "a header": "[" + ".".join("a" * 5000) + "]",
    "just too deep": "[services.x]\na = " + "[" * 30 + "]" * 30,
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_what_is_nested_too_deeply_is_a_sentence(tmp_path: Path, text: str) -> None:
    [problem] = problems(tmp_path, text)
    assert problem == (
        "router.toml: values are nested more than 32 deep; remove the brackets or dots that are too many"
    )


def test_what_is_nested_as_deeply_as_it_may_be_is_read(tmp_path: Path) -> None:
    text = "[node]\nservices = ['services.x']\n[services.x]\na = " + "[" * 29 + "]" * 29
    load(written(tmp_path, text))


@given(st.recursive(st.integers() | st.text(max_size=5) | st.floats() | st.booleans(), st.lists))
def test_any_value_anywhere_is_a_problem_or_fits(value: object) -> None:
    for section, key in (
        ("limits", "hello_s"),
        ("node", "listen"),
        ("node", "role"),
        ("store", "durability"),
    ):
        try:
            load(Path("/nonexistent/router.toml"), {f"{section}.{key}": value})
        except ConfigError as error:
            assert all(one.startswith("command line: ") for one in error.problems)


# Services


def test_options_of_a_service(tmp_path: Path) -> None:
    path = written(tmp_path, "[node]\nservices = ['services.echo:Echo']\n[services.echo]\ngreeting = 'ho'\n")
    got, origins = load(path)
    assert got.services == {"echo": {"greeting": "ho"}}
    assert origins["services.echo.greeting"] == "router.toml"


def test_names_of_services() -> None:
    assert [service_name(one) for one in ("services.echo", "echo:Echo", "a.b.c:D")] == ["echo", "echo", "c"]


def test_a_schema_reads_like_a_sentence() -> None:
    assert re.fullmatch(r"<schema of Config: \d+ settings>", repr(config._SCHEMA))


def test_what_is_no_file_is_told_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "router.toml")
    assert check(tmp_path / "router.toml") == [
        f"{tmp_path / 'router.toml'} is not a file; move it away, and `router init` writes a new one"
    ]
