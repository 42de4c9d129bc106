"""Where each setting of a command comes from: flag, variable, file or default. Pure.

A variable is `P2PMOE_` with the command's words and the parameter's name behind, such
as `P2PMOE_SERVE_DISK_CACHE`; the variable that `config show` names is the one that is
read. Values are shown as they were given; what is secret lies in files, whose paths are
options.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from typer.core import TyperArgument, TyperGroup

from p2pmoe.cli.config_file import setting_names
from p2pmoe.cli.main import PREFIX

__all__ = ["Setting", "commands_of", "settings_of", "unknown_variables", "variable_of"]

# Variables that are no option's, each read by the module named.
OWN_VARIABLES = frozenset(
    {
        "P2PMOE_API_KEY",  # cli/api_key.py; secret
        "P2PMOE_CA_FILE",  # relay/dial.py
        "P2PMOE_CONFIG",  # cli/config_file.py
        "P2PMOE_INVITE",  # network/invite.py
        "P2PMOE_KERNEL",  # cli/computing.py
        "P2PMOE_REQUIRE_SHARED",  # tests
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One option of a command; `origin` is "default", "file" or the variable's name."""

    command: str
    key: str  # as in the file
    value: Any
    origin: str
    variable: str  # that sets it; empty for arguments, which none does


def commands_of(group: TyperGroup, above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each command that runs, with its words joined by blanks, sorted.

    A group is one if it runs without naming a command of its own.
    """
    for name in sorted(group.commands):
        words = f"{above} {name}".strip()
        command = group.commands[name]
        if not isinstance(command, TyperGroup):
            yield words, command
            continue
        if command.invoke_without_command:
            yield words, command
        yield from commands_of(command, words)


def settings_of(
    command: Any,  # noqa: ANN401 - click's own types
    words: str,
    defaults: Mapping[str, Any],
    environment: Mapping[str, str],
) -> list[Setting]:
    """Return a command's settings as it would take them without flags.

    Args:
        command: The command.
        words: Its words, such as "ledger statement".
        defaults: What the file sets for it, by parameter name.
        environment: The variables.
    """
    found = []
    for key, parameter in setting_names(command).items():
        is_option = not isinstance(parameter, TyperArgument)
        variable = variable_of(words, parameter.name) if is_option else ""
        value, origin = parameter.default, "default"
        if parameter.name in defaults:
            value, origin = defaults[parameter.name], "file"
        if variable and environment.get(variable):
            value, origin = environment[variable], variable
        found.append(
            Setting(
                command=words, key=key, value=value, origin=origin, variable=variable
            )
        )
    return found


def variable_of(words: str, name: str) -> str:
    """Return the variable that sets a parameter of a command."""
    return "_".join((PREFIX, *words.split(), name)).replace("-", "_").upper()


def unknown_variables(
    settings: list[Setting], environment: Mapping[str, str]
) -> list[str]:
    """Return variables of ours that set nothing, sorted: likely misspelt."""
    known = {setting.variable for setting in settings} | OWN_VARIABLES
    ours = (name for name in environment if name.startswith(f"{PREFIX}_"))
    return sorted(name for name in ours if name not in known)
