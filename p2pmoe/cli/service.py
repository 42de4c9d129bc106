"""`p2pmoe service install|uninstall|status`: a worker that starts with your session.

A systemd user unit, a launchd agent or a service of termux-services, in your own
folders: no administrator is asked. `--dry-run` shows the file and the commands, and
does nothing. What follows `--` goes to `contribute` as it stands.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p2pmoe.cli.asking_worker import AsJson, Data, folder_of

if TYPE_CHECKING:
    from p2pmoe.contributor.services.plan import ServicePlan

__all__ = ["register", "service_plan"]

Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="[URL] [-- OPTIONS]", help="As for `p2pmoe contribute`."),
]
InviteFile = Annotated[
    Path | None,
    typer.Option("--invite", metavar="FILE", help="Invite file; else P2PMOE_INVITE."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")
]


def register(app: typer.Typer) -> None:
    """Add the group of commands to the command line."""
    group = typer.Typer(
        help="A worker that starts with your session: systemd, launchd or Termux.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.command("install")(_install)
    group.command("uninstall")(_uninstall)
    group.command("status")(_status)
    app.add_typer(group, name="service")


def service_plan(command: list[str], data: Path) -> "ServicePlan":
    """Return the plan for this system.

    Raises:
        ConfigurationError: it has no service manager that is known.
    """
    import os

    from p2pmoe.contributor.services.plan import Place, manager_of, plan_of

    manager = manager_of(sys.platform, os.environ)
    home = Path.home()
    place = Place(
        home=home,
        uid=os.getuid(),
        config=Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config"),
        prefix=Path(os.environ.get("PREFIX", "/usr")),
    )
    return plan_of(manager, place, command, data.absolute())


def _install(
    words: Words = None,
    invite: InviteFile = None,
    data: Data = None,
    dry_run: DryRun = False,
) -> None:
    """Install and start a worker as a service of your own."""
    from p2pmoe.contributor.services.carrying_out import install

    folder = folder_of(data)
    plan = service_plan(_command(words or [], invite, folder), folder)
    if dry_run:
        _show(plan)
        return
    folder.mkdir(parents=True, exist_ok=True)
    install(plan)
    for file in plan.files:
        print(f"written: {file.path}", file=sys.stderr)
    for note in ("`p2pmoe status` says what it does", *plan.notes):
        print(note, file=sys.stderr)


def _command(words: list[str], invite: Path | None, folder: Path) -> list[str]:
    """Return what the service runs, with the network checked as `contribute` does."""
    import os

    from p2pmoe.cli.contribute import network_of
    from p2pmoe.network.invite import INVITE_VARIABLE

    url = words[0] if words and not words[0].startswith("-") else None
    options = words[1:] if url is not None else words
    named = os.environ.get(INVITE_VARIABLE)
    invite = invite or (Path(named) if named else None)
    network_of(url, invite)
    told = [] if url is None else [url]
    if invite is not None:
        told += ["--invite", str(invite.absolute())]
    told += ["--data", str(folder.absolute()), "--yes", *options]
    _check(told)
    return [sys.executable, "-m", "p2pmoe", "contribute", *told]


def _check(told: list[str]) -> None:
    """Have `contribute` read its words, so that a wrong one is not the service's end.

    Raises:
        UsageError: an option that is none, or has a value that it cannot have.
    """
    from typer.main import get_command

    from p2pmoe.cli import contribute

    app = typer.Typer(add_completion=False)
    contribute.register(app)
    get_command(app).make_context("p2pmoe contribute", list(told))


def _uninstall(data: Data = None, dry_run: DryRun = False) -> None:
    """Stop the service and remove it; key, shards and receipts stay."""
    from p2pmoe.contributor.services.carrying_out import remove

    plan = service_plan([], folder_of(data))
    if dry_run:
        for command in (*plan.remove, *plan.reload):
            print(" ".join(command))
        return
    gone = remove(plan)
    for path in gone:
        print(f"removed: {path}", file=sys.stderr)
    if not gone:
        print("no service is installed", file=sys.stderr)


def _status(data: Data = None, as_json: AsJson = False) -> None:
    """Say whether the service is installed and runs; 1 if it does not run."""
    from p2pmoe.cli.tables import print_json, print_values
    from p2pmoe.contributor.services.carrying_out import is_installed, is_running

    plan = service_plan([], folder_of(data))
    installed = is_installed(plan)
    running = installed and is_running(plan)
    values = {
        "manager": str(plan.manager),
        "file": str(plan.files[0].path),
        "installed": installed,
        "running": running,
    }
    if as_json:
        print_json(values)
    else:
        print_values({k: _yes(v) for k, v in values.items()})
    if not running:
        raise typer.Exit(1)


def _yes(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value


def _show(plan: "ServicePlan") -> None:
    for file in plan.files:
        print(f"# {file.path}")
        print(file.text)
    for command in plan.install:
        print(f"# then: {' '.join(command)}")
