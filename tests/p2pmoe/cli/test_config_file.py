"""The configuration file: what it may say, and that nothing else passes."""

from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup
from typer.main import get_command

from p2pmoe.cli.config_file import (
    MAX_BYTES,
    config_path,
    defaults_of,
    read_config,
    setting_names,
)
from p2pmoe.errors import ConfigurationError

PATH = Path("config.toml")


@pytest.fixture
def group() -> TyperGroup:
    app, inner = typer.Typer(), typer.Typer()

    @app.command("serve")
    def serve(
        model: str,
        disk_cache: str = "1G",
        batch: int = 16,
        loud: bool = False,
        as_json: bool = typer.Option(False, "--json"),
        source: list[str] = typer.Option([], "--source"),  # noqa: B008 - typer's way
    ) -> None: ...

    @inner.command("show")
    def show(n: int = 1) -> None: ...

    runs = typer.Typer()

    @runs.callback(invoke_without_command=True)
    def run(port: int = 443) -> None: ...

    @runs.command("probe")
    def probe(n: int = 1) -> None: ...

    app.add_typer(inner, name="things")
    app.add_typer(runs, name="relay")
    command = get_command(app)
    assert isinstance(command, TyperGroup)
    return command


def test_keys_are_long_options_and_arguments(group: TyperGroup) -> None:
    names = set(setting_names(group.commands["serve"]))
    assert names == {"model", "disk-cache", "batch", "loud", "json", "source"}


def test_tables_become_defaults_by_parameter(group: TyperGroup) -> None:
    tables = {
        "serve": {"model": "m", "disk-cache": "2G", "json": True, "source": ["a", "b"]},
        "things": {"show": {"n": 3}},
        "relay": {"port": 8443, "probe": {"n": 2}},
    }
    assert defaults_of(group, tables, PATH) == {
        "relay": {"port": 8443, "probe": {"n": 2}},
        "serve": {
            "model": "m",
            "disk_cache": "2G",
            "as_json": True,
            "source": ["a", "b"],
        },
        "things": {"show": {"n": 3}},
    }
    assert defaults_of(group, {"serve": {"disk_cache": "2G"}}, PATH) == {
        "serve": {"disk_cache": "2G"}
    }


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"sevre": {}}, "sevre names no command"),
        ({"serve": 5}, "serve is no table"),
        ({"serve": {"bacth": 5}}, "serve.bacth names no option"),
        ({"serve": {"batch": {}}}, "serve.batch cannot be"),
        ({"serve": {"batch": [1]}}, "serve.batch cannot be"),
        ({"serve": {"batch": True}}, "serve.batch cannot be"),
        ({"serve": {"loud": "yes"}}, "serve.loud cannot be"),
        ({"serve": {"source": "a"}}, "serve.source cannot be"),
        ({"things": {"show": 1}}, "things.show is no table"),
        ({"things": {"n": 1}}, "things.n names no command"),
    ],
)
def test_what_means_nothing_is_named(
    group: TyperGroup, tables: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        defaults_of(group, tables, PATH)


def test_a_near_name_is_advised(group: TyperGroup) -> None:
    with pytest.raises(ConfigurationError) as caught:
        defaults_of(group, {"serve": {"disk-cash": "1G"}}, PATH)
    assert caught.value.advice == "perhaps disk-cache was meant"


def test_a_file_that_is_not_there_says_nothing_unless_it_was_named(
    tmp_path: Path,
) -> None:
    assert read_config(tmp_path / "none.toml", is_named=False) == {}
    with pytest.raises(ConfigurationError, match="no such file"):
        read_config(tmp_path / "none.toml", is_named=True)


@pytest.mark.parametrize(
    "content",
    [
        b"[serve",
        b"a = 1\na = 2",
        b"\xff\xfe",
        b"a = " + b"[" * 50_000,
        b"#" * (MAX_BYTES + 1),
    ],
)
def test_what_is_no_toml_is_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match="cannot be read") as caught:
        read_config(path, is_named=False)
    assert "\n" not in str(caught.value)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is a directory"):
        read_config(tmp_path, is_named=True)


def test_where_it_lies() -> None:
    assert config_path({"P2PMOE_CONFIG": "/x/y.toml"}) == Path("/x/y.toml")
    assert config_path({}).name == "config.toml"


def test_an_integer_that_python_does_not_read_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"[serve]\nbatch = " + b"9" * 5000 + b"\n")
    with pytest.raises(ConfigurationError, match="limit"):
        read_config(path, is_named=True)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(1 << 63, id="2^63"),
        pytest.param(-(1 << 20000), id="-2^20000"),
        pytest.param([1 << 20000], id="[2^20000]"),
    ],
)
def test_an_integer_beyond_toml_is_refused(group: TyperGroup, value: object) -> None:
    with pytest.raises(ConfigurationError, match="batch cannot be"):
        defaults_of(group, {"serve": {"batch": value}}, PATH)
