"""`p2pmoe market prices|coverage|why` over a market's file."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from p2pmoe.cli.main import build_app
from p2pmoe.errors import ConfigurationError
from p2pmoe.market.errors import MemoryFileBroken
from p2pmoe.market.pricing.memory import PRICES_FILE, encode_models
from tests.p2pmoe.market.pricing.test_report import looked
from tests.support.market_prices import EXPERTS, model_of

NAME, OTHER = bytes.fromhex("ab" * 32), bytes.fromhex("cd" * 32)
COLUMNS = "expert price_uc multiplier target coverage live domains paid_rows"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / PRICES_FILE).write_text(encode_models({NAME: looked()}))
    return tmp_path


def run(folder: Path, command: str, *arguments: str) -> Result:
    words = ["market", command, "--data", str(folder), *arguments]
    return CliRunner().invoke(build_app("market"), words)


def document_of(folder: Path, command: str, *arguments: str) -> dict:
    result = run(folder, command, "--json", *arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_prices_the_dearest_first(folder: Path) -> None:
    told = document_of(folder, "prices")
    assert (told["model"], told["epoch"], told["base_uc"]) == (NAME.hex(), 1, 100)
    assert told["as_of"] == "1970-01-01T09:50:00.000000Z"
    assert [row["expert"] for row in told["experts"]][:2] == ["1/0", "1/1"]
    assert len(told["experts"]) == 8
    assert len(document_of(folder, "prices", "--top", "3")["experts"]) == 3
    result = run(folder, "prices")
    assert result.stdout.splitlines()[0].split("\t") == COLUMNS.split()
    assert len(result.stdout.splitlines()) == 9
    assert "price epoch 1, base price 100 uc a row, as of 1970-01-01" in result.stderr


def test_coverage_by_layer(folder: Path) -> None:
    first, second = document_of(folder, "coverage", "--model", "abab")["layers"]
    assert first == {
        "layer": 0,
        "experts": 4,
        "held": 4,
        "below_target": 0,
        "least": "2.700",
        "mean": "2.700",
        "dropped_lately": "0.900",
    }
    assert (second["held"], second["below_target"]) == (0, 4)
    assert run(folder, "coverage").stdout.startswith("layer\texperts\theld")


@pytest.mark.parametrize("expert", ["0/0", "0.0"])
def test_why(folder: Path, expert: str) -> None:
    told = document_of(folder, "why", expert)
    assert told["dropped_lately"] == "0.900"
    assert told["price_uc"] == 60
    assert "what was dropped lately counted" in told["because"]
    lines = run(folder, "why", expert).stdout.splitlines()
    assert lines[0] == "name\tvalue"
    assert "ideal_multiplier\t0.861" in lines


@pytest.mark.parametrize("expert", ["", "3", "a/b", "-1/3", "1/", "99999/1", "1/2/3"])
def test_what_names_no_expert_is_said(folder: Path, expert: str) -> None:
    error = run(folder, "why", "--", expert).exception
    assert isinstance(error, ConfigurationError)
    assert "names no expert" in str(error)


def test_an_expert_that_the_model_lacks_is_said(folder: Path) -> None:
    error = run(folder, "why", "7/7").exception
    assert isinstance(error, ConfigurationError)
    assert "has no expert 7/7" in str(error)


def test_several_models_are_told_apart(folder: Path) -> None:
    models = {NAME: looked(), OTHER: model_of(EXPERTS)}
    (folder / PRICES_FILE).write_text(encode_models(models))
    error = run(folder, "prices").exception
    assert isinstance(error, ConfigurationError)
    assert (str(error), error.advice) == (
        "2 models",
        "name one with --model: cdcdcdcd, abababab",
    )
    assert document_of(folder, "prices", "--model", "CD")["model"] == OTHER.hex()
    unknown = run(folder, "prices", "--model", "ee").exception
    assert str(unknown) == "no model begins with 'ee'"


def test_without_a_file_the_folder_is_asked_for(tmp_path: Path) -> None:
    error = run(tmp_path, "prices").exception
    assert isinstance(error, ConfigurationError)
    assert "holds no prices" in str(error)
    assert "--data" in error.advice


def test_a_broken_file_is_said(tmp_path: Path) -> None:
    (tmp_path / PRICES_FILE).write_text("nonsense")
    assert isinstance(run(tmp_path, "coverage").exception, MemoryFileBroken)
