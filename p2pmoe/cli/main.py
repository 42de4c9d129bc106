"""The command line's root: registers one file a command, and turns errors into lines.

Rules: importing this module loads next to nothing, so that an interrupt finds `main` at
work, and building the command line neither trio nor numpy, so that `--help` answers
at once; an error made for people is one line on stderr, never a traceback; exit codes
are 0 done, 1 a check found a difference or an answer did not come whole, 2 wrong input
or configuration, 130 interrupted.
"""

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from p2pmoe import __version__

if TYPE_CHECKING:
    import typer

__all__ = ["build_app", "foreign_packages", "main"]

COMMANDS = (
    "relay",
    "network",
    "serve",
    "contribute",
    "status",
    "pause",
    "resume",
    "drain",
    "stop",
    "limits",
    "earnings",
    "service",
    "cache",
    "key",
    "uninstall",
    "run",
    "chat",
    "trace",
    "demo",
    "bench",
    "ledger",
    "market",
    "ledgerd",
    "receipts",
    "models",
    "convert",
    "eval",
    "config",
    "doctor",
)
PREFIX = "P2PMOE"  # of the variables that set options
SIBLINGS = ("relay", "ledger", "mobile_worker")
_INTERRUPTED = 130


def build_app(only: str | None = None) -> "typer.Typer":
    """Return the whole command line, each command registered by its own file.

    `only`: with that one of `COMMANDS` alone, which a small host has room for.
    """
    import typer

    def root(
        version: bool = typer.Option(
            False, "--version", help="Print the version and exit."
        ),
    ) -> None:
        if version:
            print(__version__)
            raise typer.Exit

    app = typer.Typer(
        name="p2pmoe",
        help="Peer-to-peer inference of Mixture-of-Experts models.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(root)
    for command in COMMANDS if only is None else (only,):
        importlib.import_module(f"p2pmoe.cli.{command}").register(app)
    return app


def foreign_packages() -> list[str]:
    """Return the sibling packages that another distribution has shadowed.

    PyPI has other distributions named relay and ledger; one installed into the same
    environment would be imported in place of ours.
    """
    home = Path(__file__).resolve().parents[2]
    foreign = []
    for name in SIBLINGS:
        spec = importlib.util.find_spec(name)
        origin = Path(spec.origin).resolve() if spec and spec.origin else None
        if origin is None or origin.parents[1] != home:
            foreign.append(name)
    return foreign


def main() -> None:
    """Run the command line and exit with its code."""
    foreign = foreign_packages()
    if foreign:
        names = ", ".join(foreign)
        print(
            f"error: the packages {names} found here are not p2pmoe's own. "
            "Install p2pmoe into a virtual environment of its own.",
            file=sys.stderr,
        )
        sys.exit(2)
    from p2pmoe.cli import termux

    if termux.is_termux(sys.platform, os.environ):
        missing = termux.missing_packages()
        if missing:
            print(termux.refusal(missing), file=sys.stderr)
            sys.exit(2)
    try:
        code = _run(build_app(_only_command()))
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except Exception as error:
        code = _complain(error)
        if code is None:
            raise
    if code == _INTERRUPTED:  # typer returns it, where it meets an interrupt itself
        print("interrupted", file=sys.stderr)
    sys.exit(code if isinstance(code, int) else 0)


def _only_command() -> str | None:
    """Return the command that the arguments name, if no other need be known.

    A configuration file is checked against all of them, and `config` shows all.
    """
    from p2pmoe.cli.config_file import CONFIG_VARIABLE, config_path

    named = sys.argv[1] if len(sys.argv) > 1 else ""
    if named not in COMMANDS or named == "config":
        return None
    if os.environ.get(CONFIG_VARIABLE) or config_path(os.environ).exists():
        return None
    return named


def _run(app: "typer.Typer") -> object:
    """Run the command that the arguments name, with what file and variables set."""
    from typer.core import TyperGroup
    from typer.main import get_command

    from p2pmoe.cli.config_file import environment_config

    command = get_command(app)
    defaults = {}
    wants_help = {"-h", "--help", "--version"} & set(sys.argv[1:])
    if isinstance(command, TyperGroup) and not wants_help:
        defaults = environment_config(command)
    return command(
        standalone_mode=False, auto_envvar_prefix=PREFIX, default_map=defaults
    )


def _complain(error: Exception) -> int | None:
    """Say on one line what a person did or met; None for a fault of the program."""
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error, file=sys.stderr)
        return 2
    if type(error).__name__ == "Abort":
        return _INTERRUPTED
    from p2pmoe.cli.complaints import complaint_of

    complaint = complaint_of(error)
    if complaint is None:
        return None
    print(f"error: {complaint.line}", file=sys.stderr)
    return complaint.exit_code
