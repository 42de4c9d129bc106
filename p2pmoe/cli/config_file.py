"""The configuration file: TOML whose tables are commands and whose keys are options.

    [serve]
    ram = "8G"
    api-key-file = "/etc/p2pmoe/api-key"

    [ledger.statement]
    json = true

A group that runs without a command (`relay`) has its own options in its table. The file
lies where `P2PMOE_CONFIG` says, else in the user's configuration folder; one that is
not there says nothing. Keys are the long names of options without the dashes in front;
of a pair like `--explain/--no-explain` the first. Arguments have their name in lower
case. Whatever names no command or option, or has a value of another type, is refused
with the file's and the key's name: a setting is never ignored in silence.
"""

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from typer.core import TyperArgument, TyperGroup

from p2pmoe.errors import ConfigurationError

__all__ = [
    "CONFIG_VARIABLE",
    "config_path",
    "defaults_of",
    "environment_config",
    "read_config",
    "setting_names",
]

CONFIG_VARIABLE = "P2PMOE_CONFIG"
MAX_BYTES = 1 << 16  # the parser takes minutes for a key of a million dots
MAX_INTEGER = 1 << 63  # what TOML has; Python's parser takes any


def config_path(environment: Mapping[str, str]) -> Path:
    """Return where the configuration file is looked for."""
    named = environment.get(CONFIG_VARIABLE)
    if named:
        return Path(named)
    import platformdirs

    folder = platformdirs.user_config_dir("p2pmoe", appauthor=False)
    return Path(folder) / "config.toml"


def read_config(path: Path, *, is_named: bool) -> dict[str, Any]:
    """Return the tables of the file; none if there is no file and none was named.

    Raises:
        ConfigurationError: it was named and is not there, cannot be read, is larger
            than 64 KiB, or is not TOML.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        if not is_named:
            return {}
        raise _unreadable(path, "there is no such file") from error
    except OSError as error:
        raise _unreadable(path, (error.strerror or str(error)).lower()) from error
    if len(raw) > MAX_BYTES:
        raise _unreadable(path, f"it is larger than {MAX_BYTES} bytes")
    try:
        return tomllib.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # an integer of 5000 digits, too
        reason = str(error).splitlines()[0] if str(error) else "nested too deeply"
        raise _unreadable(path, reason) from error


def defaults_of(
    group: TyperGroup, tables: Mapping[str, Any], path: Path
) -> dict[str, Any]:
    """Return the defaults of a group's commands, by parameter name, for click.

    Raises:
        ConfigurationError: a key names nothing here, or holds another type.
    """
    return _defaults(group, tables, path, ())


def setting_names(command: Any) -> dict[str, Any]:  # noqa: ANN401 - click's own types
    """Return a command's parameters by the key that sets each in the file."""
    names: dict[str, Any] = {}
    for parameter in command.params:
        if parameter.name in {"help", "version"}:
            continue
        if isinstance(parameter, TyperArgument):
            names[(parameter.name or "").lower()] = parameter
            continue
        long = [name for name in parameter.opts if name.startswith("--")]
        if long:
            names[long[0].removeprefix("--")] = parameter
    return names


def _defaults(
    group: TyperGroup, tables: Mapping[str, Any], path: Path, above: tuple[str, ...]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, table in tables.items():
        command = group.commands.get(name)
        if command is None:
            raise _wrong(path, (*above, name), "names no command", group.commands)
        if not isinstance(table, dict):
            raise _wrong(path, (*above, name), "is no table")
        if isinstance(command, TyperGroup):
            found[name] = _group_defaults(command, table, path, (*above, name))
        else:
            found[name] = _options(command, table, path, (*above, name))
    return found


def _group_defaults(
    group: TyperGroup, table: Mapping[str, Any], path: Path, above: tuple[str, ...]
) -> dict[str, Any]:
    """A group that runs by itself has options beside the tables of its commands."""
    own = {}
    if group.invoke_without_command:
        own = {k: v for k, v in table.items() if k not in group.commands}
    tables = {key: value for key, value in table.items() if key not in own}
    return _options(group, own, path, above) | _defaults(group, tables, path, above)


def _options(
    command: Any,  # noqa: ANN401 - click's own types
    table: Mapping[str, Any],
    path: Path,
    above: tuple[str, ...],
) -> dict[str, Any]:
    known = setting_names(command)
    found: dict[str, Any] = {}
    for key, value in table.items():
        parameter = known.get(key.replace("_", "-"), known.get(key))
        if parameter is None:
            raise _wrong(path, (*above, key), "names no option", known)
        if not _fits(value, parameter):
            raise _wrong(path, (*above, key), f"cannot be {_shown(value)}")
        found[parameter.name] = value
    return found


def _fits(value: object, parameter: Any) -> bool:  # noqa: ANN401 - click's own types
    """Whether a TOML value may stand for the option; its meaning is checked later."""
    takes_many = bool(getattr(parameter, "multiple", False)) or parameter.nargs != 1
    if takes_many:
        return isinstance(value, list) and all(_is_plain(item) for item in value)
    if getattr(parameter, "is_flag", False):
        return isinstance(value, bool)
    return _is_plain(value)


def _is_plain(value: object) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < MAX_INTEGER
    return isinstance(value, str | float)


def _shown(value: object) -> str:
    if isinstance(value, int) and abs(value) >= MAX_INTEGER:
        return "so large a number"  # which Python may refuse to write down
    try:
        return f"{value!r:.40}"
    except ValueError:  # such a number within
        return "this"


def _unreadable(path: Path, reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"the configuration {path} cannot be read: {reason}",
        advice=f"correct it, or name another file with {CONFIG_VARIABLE}",
    )


def _wrong(
    path: Path, place: tuple[str, ...], reason: str, known: Iterable[str] = ()
) -> ConfigurationError:
    shown = ".".join(part[:60] for part in place)
    near = difflib.get_close_matches(place[-1].replace("_", "-"), list(known), n=1)
    advice = f"perhaps {near[0]} was meant" if near else "see `p2pmoe config show`"
    return ConfigurationError(f"{path}: {shown} {reason}", advice=advice)


def environment_config(group: TyperGroup) -> dict[str, Any]:
    """Return the defaults that this process's configuration file sets; see above."""
    path = config_path(os.environ)
    is_named = bool(os.environ.get(CONFIG_VARIABLE))
    return defaults_of(group, read_config(path, is_named=is_named), path)
