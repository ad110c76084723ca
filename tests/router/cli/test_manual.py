"""Manual pages: each command has one, which says what its `--help` says, and nothing in it is taken for a request."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import click
import pytest
from rigs.commands import Run

from router.cli import COMMANDS, main
from router.cli.exits import Exit
from router.cli.manual import escaped, every_command, page_name, page_text


def test_every_command_has_a_page(router: Run, tmp_path: Path) -> None:
    done = router("man", "--write", str(tmp_path / "man"))
    assert done.exit_code == 0, done.stderr
    written = {one.name: one.read_text() for one in (tmp_path / "man/man1").iterdir()}
    contexts = {f"{page_name(ctx)}.1": ctx for ctx in every_command(click.Context(main, info_name="router"))}
    assert written.keys() == contexts.keys() > {f"router-{name}.1" for name in COMMANDS}
    assert {"router-dmq.1", "router-group-new.1", "router-web-invite.1"} < written.keys()
    for name, ctx in contexts.items():
        assert f"\n.SH NAME\n{escaped(page_name(ctx))} \\- " in written[name]
        options = [one for one in ctx.command.get_params(ctx) if isinstance(one, click.Option) and not one.hidden]
        missing = [one.opts for one in options if escaped(one.opts[-1]) not in written[name]]
        assert not missing, f"{name} does not tell of {missing}"
        mute = [one.opts for one in options if not one.help]
        assert not mute, f"{name} does not say what {mute} are for"
        about = (ctx.command.help or "").strip().split("\n\n")[0]
        assert about.endswith((".", ":")), f"{name} does not begin with a sentence"
    assert done.stderr == f"wrote {len(written)} pages into {tmp_path / 'man/man1'}\n"


@click.command(help="Do it.\n\n'Odd' \\words of `a-b`.\n\n\b\n.first line\nsecond line")
@click.option("--much", default=3, show_default=True, help="How much.")
def _odd(much: int) -> None: ...


def test_a_page_by_value() -> None:
    page = page_text(click.Context(_odd, info_name="odd"))
    _, _, rest = page.partition(".SH NAME\n")
    assert rest == (
        "odd \\- Do it\n.SH SYNOPSIS\n\\fBodd\\fP [OPTIONS]\n.SH DESCRIPTION\nDo it.\n.PP\n"
        "\\&'Odd' \\(rswords of \\fBa\\-b\\fP.\n.PP\n.nf\n\\&.first line\nsecond line\n.fi\n"
        ".SH OPTIONS\n.TP\n\\fB\\-\\-much INTEGER\\fP\nHow much.  [default: 3]\n".replace("  [", " [")
        + ".TP\n\\fB\\-\\-help\\fP\nShow this message and exit.\n"
        ".SH ENVIRONMENT\n.TP\n\\fBROUTER_HOME\\fP\nThe node's directory, where \\-\\-home does not name one.\n"
        ".SH SEE ALSO\n\\fBrouter\\-init\\fP(1), \\fBrouter\\-serve\\fP(1), \\fBrouter\\-doctor\\fP(1)\n"
    )


def test_faults_are_named_with_what_to_do(router: Run, tmp_path: Path) -> None:
    assert router("man", "group", "new").stdout.startswith('.TH "ROUTER\\-GROUP\\-NEW" "1"')
    for words, said in (
        (("group", "old"), '"router group" has no command "old"; it has: '),
        (("id", "old"), '"router id" has no command "old"; it has: none'),
        (("id", "--write", str(tmp_path)), "leave out the command's name"),
    ):
        told = router("man", *words)
        assert told.exit_code == Exit.USAGE and said in told.stderr
    (tmp_path / "file").write_text("")
    told = router("man", "--write", str(tmp_path / "file" / "man"))
    assert told.exit_code == Exit.FAILED and "name another folder" in told.stderr


@pytest.mark.long
@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed: apt install groff-base")
def test_groff_reads_every_page_without_a_warning(router: Run, tmp_path: Path) -> None:
    assert router("man", "--write", str(tmp_path)).exit_code == 0
    pages = sorted((tmp_path / "man1").iterdir())
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-K", "utf8", "-ww", "-z", *pages], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
