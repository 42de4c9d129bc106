"""The command line's root: quick help, versions, errors as lines, foreign packages."""

import subprocess
import sys

import pytest
import typer

from p2pmoe import __version__
from p2pmoe.cli import main


def run(*arguments: str, code: str = "") -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", code] if code else [sys.executable, "-m", "p2pmoe"]
    return subprocess.run(
        [*program, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_help_names_every_command_and_loads_nothing_heavy():
    code = (
        "import sys; from p2pmoe.cli.main import build_app; build_app(); "
        "heavy = ('trio', 'numpy', 'wasmtime', 'sqlalchemy', 'rich', 'httpx'); "
        "print([m for m in heavy if m in sys.modules])"
    )
    assert run(code=code).stdout.strip() == "[]"
    shown = run("--help")
    assert shown.returncode == 0
    for command in main.COMMANDS:
        assert command in shown.stdout


def test_version():
    assert run("--version").stdout.strip() == __version__


def test_an_unknown_option_is_a_usage_error_without_traceback():
    shown = run("run", "hello", "--no-such-option")
    assert shown.returncode == 2
    assert len(shown.stderr.strip().splitlines()) == 1
    assert shown.stderr.startswith("error: ")


def test_no_command_shows_the_help():
    shown = run()
    assert shown.returncode == 2
    assert shown.stderr.startswith("Usage: ")
    assert "contribute" in shown.stderr


def test_an_error_is_one_line_with_advice():
    shown = run("run", "hello", "--url", "http://127.0.0.1:1")
    assert shown.returncode == 1
    assert len(shown.stderr.strip().splitlines()) == 1
    assert "p2pmoe serve" in shown.stderr


def test_a_foreign_relay_package_is_named(monkeypatch, capsys):
    monkeypatch.setattr(main, "foreign_packages", lambda: ["relay"])
    with pytest.raises(SystemExit) as caught:
        main.main()
    assert caught.value.code == 2
    assert "environment of its own" in capsys.readouterr().err


def test_our_own_packages_are_not_foreign():
    assert main.foreign_packages() == []


def test_an_interrupt_that_typer_met_is_told_like_any_other(monkeypatch, capsys):
    app = typer.Typer()

    @app.command()
    def interrupted() -> None:
        raise typer.Exit(130)

    monkeypatch.setattr(main, "build_app", lambda *_: app)
    monkeypatch.setattr(sys, "argv", ["p2pmoe"])
    with pytest.raises(SystemExit) as caught:
        main.main()
    assert caught.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_an_interrupt_while_packages_are_loaded_finds_main_at_work():
    code = "import sys; import p2pmoe.cli.main; print('typer' in sys.modules)"
    assert run(code=code).stdout.strip() == "False"


def test_interruption_exits_130(monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "build_app", interrupted)
    with pytest.raises(SystemExit) as caught:
        main.main()
    assert caught.value.code == 130


@pytest.mark.parametrize("words", [("relay",), ("relay", "probe", "--help")])
def test_only_the_named_command_is_loaded(words, monkeypatch, tmp_path):
    monkeypatch.setattr(main.sys, "argv", ["p2pmoe", *words])
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("P2PMOE_CONFIG", raising=False)
    assert main._only_command() == "relay"
    (tmp_path / "p2pmoe").mkdir()
    (tmp_path / "p2pmoe" / "config.toml").write_text("")  # checked against all
    assert main._only_command() is None


@pytest.mark.parametrize("words", [(), ("config", "show"), ("rellay",), ("--help",)])
def test_else_all_are(words, monkeypatch, tmp_path):
    monkeypatch.setattr(main.sys, "argv", ["p2pmoe", *words])
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert main._only_command() is None
