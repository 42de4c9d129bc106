"""`p2pmoe config`: what is set, where each value comes from, and a service of it.

    config show [COMMAND]   every option of a command, or all that is set anywhere
    config path             where the configuration file is looked for
    config unit [SERVICE]   a systemd unit for `serve` or `relay`, to stdout

Precedence: flags, then variables, then the file, then defaults. Flags are the caller's
own and not shown.
"""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from p2pmoe.cli.config_origins import Setting

__all__ = ["register"]

Command = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[COMMAND]",
        help="Such as `serve`; without, all that is set.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    group = typer.Typer(help="Show what is configured.", no_args_is_help=True)
    group.command("show")(_show)
    group.command("path")(_path)
    group.command("unit")(_unit)
    app.add_typer(group, name="config")


def _show(
    context: typer.Context, command: Command = None, as_json: AsJson = False
) -> None:
    """Print options, their values and where each comes from."""
    import os

    from p2pmoe.cli.config_file import config_path
    from p2pmoe.cli.config_origins import unknown_variables
    from p2pmoe.cli.tables import print_json, print_rows
    from p2pmoe.errors import ConfigurationError

    settings = _settings(context)
    wanted = " ".join(command or ())
    if wanted:
        chosen = [setting for setting in settings if setting.command == wanted]
    else:
        chosen = [setting for setting in settings if setting.origin != "default"]
    if wanted and not chosen:
        raise ConfigurationError(
            f"there is no command {wanted[:60]!r}", advice="see `p2pmoe --help`"
        )
    path = config_path(os.environ)
    strangers = unknown_variables(settings, os.environ)
    rows = [_row(setting) for setting in chosen]
    if as_json:
        print_json(
            {
                "file": str(path),
                "file_exists": path.exists(),
                "settings": rows,
                "unknown_variables": strangers,
            }
        )
        return
    print(f"file: {path}{'' if path.exists() else ' (none)'}", file=sys.stderr)
    columns = ("command", "option", "value", "origin", "variable")
    print_rows(columns[1:] if wanted else columns, rows, title=wanted or "set")
    for name in strangers:
        print(f"{name} sets nothing: no option has this variable", file=sys.stderr)


def _path() -> None:
    """Print where the configuration file is looked for."""
    import os

    from p2pmoe.cli.config_file import config_path

    print(config_path(os.environ))


def _unit(
    service: Annotated[
        str, typer.Argument(metavar="[SERVICE]", help="serve, or relay.")
    ] = "serve",
) -> None:
    """Print a systemd unit of a service, by the file /etc/p2pmoe/config.toml."""
    from p2pmoe.cli.config_unit import SERVICES, unit_of
    from p2pmoe.errors import ConfigurationError

    if service not in SERVICES:
        raise ConfigurationError(
            f"there is no unit of {service[:40]!r}",
            advice=f"name one of {', '.join(SERVICES)}",
        )
    print(unit_of(service), end="")


def _settings(context: typer.Context) -> "list[Setting]":
    import os

    from typer.core import TyperGroup

    from p2pmoe.cli.config_origins import commands_of, settings_of

    root = context.find_root()
    if not isinstance(root.command, TyperGroup):
        return []
    found: list[Setting] = []
    for words, command in commands_of(root.command):
        defaults = root.default_map or {}
        for word in words.split():
            defaults = defaults.get(word) or {}
        found += settings_of(command, words, defaults, os.environ)
    return found


def _row(setting: "Setting") -> dict[str, object]:
    return {
        "command": setting.command,
        "option": setting.key,
        "value": "" if setting.value is None else setting.value,
        "origin": setting.origin,
        "variable": setting.variable,
    }
