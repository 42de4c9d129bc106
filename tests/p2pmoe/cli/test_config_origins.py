"""Values and their origins, in the order of precedence."""

import typer
from typer.core import TyperGroup
from typer.main import get_command

from p2pmoe.cli.config_origins import (
    Setting,
    commands_of,
    settings_of,
    unknown_variables,
    variable_of,
)


def group() -> TyperGroup:
    app, inner = typer.Typer(), typer.Typer()

    @app.command("serve")
    def serve(model: str, disk_cache: str = "1G", batch: int = 16) -> None: ...

    @inner.command("trial-balance")
    def trial(n: int = 1) -> None: ...

    runs = typer.Typer()

    @runs.callback(invoke_without_command=True)
    def run(port: int = 443) -> None: ...

    @runs.command("probe")
    def probe(n: int = 1) -> None: ...

    app.add_typer(inner, name="ledger")
    app.add_typer(runs, name="relay")
    command = get_command(app)
    assert isinstance(command, TyperGroup)
    return command


def serve_settings(
    defaults: dict[str, object], environment: dict[str, str]
) -> dict[str, Setting]:
    command = dict(commands_of(group()))["serve"]
    found = settings_of(command, "serve", defaults, environment)
    return {setting.key: setting for setting in found}


def test_all_commands_by_their_words() -> None:
    assert [words for words, _ in commands_of(group())] == [
        "ledger trial-balance",
        "relay",
        "relay probe",
        "serve",
    ]


def test_a_variable_comes_before_the_file_and_the_file_before_the_default() -> None:
    settings = serve_settings(
        {"disk_cache": "2G", "batch": 8, "model": "m"}, {"P2PMOE_SERVE_BATCH": "4"}
    )
    assert {key: (s.value, s.origin) for key, s in settings.items()} == {
        "model": ("m", "file"),
        "disk-cache": ("2G", "file"),
        "batch": ("4", "P2PMOE_SERVE_BATCH"),
    }
    assert serve_settings({}, {})["batch"].origin == "default"


def test_an_empty_variable_sets_nothing() -> None:
    settings = serve_settings({}, {"P2PMOE_SERVE_BATCH": ""})
    assert settings["batch"].origin == "default"


def test_variables_are_spelt_as_the_command_line_reads_them() -> None:
    assert variable_of("serve", "disk_cache") == "P2PMOE_SERVE_DISK_CACHE"
    assert variable_of("ledger trial-balance", "n") == "P2PMOE_LEDGER_TRIAL_BALANCE_N"


def test_misspelt_variables_are_found() -> None:
    settings = list(serve_settings({}, {}).values())
    environment = {
        "P2PMOE_SERVE_BTACH": "1",
        "P2PMOE_SERVE_BATCH": "1",
        "P2PMOE_API_KEY": "secret",
        "PATH": "/bin",
    }
    assert unknown_variables(settings, environment) == ["P2PMOE_SERVE_BTACH"]
