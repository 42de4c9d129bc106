"""`p2pmoe models inspect`: a table for people, columns for a pipe, JSON."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from p2pmoe.cli.models import register
from p2pmoe.weights.errors import ModelFileError
from tests.support.gguf_writer import write_gguf
from tests.support.header_only import write_kimi_k3, write_minimax_m3
from tests.support.mini_m3 import MINI_METADATA, mini_tensors, write_mini_m3

POCKET = Path(__file__).resolve().parents[3] / "p2pmoe/models/pocket-q4_0.gguf"


def invoke(*arguments: str):
    app = typer.Typer()
    register(app)
    app.command("other")(lambda: None)
    return CliRunner().invoke(app, ["models", "inspect", *arguments])


def columns(text: str) -> dict[str, str]:
    rows = [line.split("\t") for line in text.splitlines()]
    return {row[0]: row[1] for row in rows if len(row) == 2}


def test_a_pipe_gets_columns() -> None:
    shown = invoke(str(POCKET))
    assert shown.exit_code == 0, shown.exception
    values = columns(shown.stdout)
    assert values["experts"] == "224 (7 layers x 32)"
    assert values["calls a token"] == "28"
    assert values["runs here"] == "yes"
    assert "part\ttensors\tparameters\tbytes\tsize" in shown.stdout
    assert "format\ttensors\tbytes\tsize" in shown.stdout


def test_json_holds_whole_numbers() -> None:
    shown = invoke(str(POCKET), "--json")
    document = json.loads(shown.stdout)
    assert document["experts"]["total"] == 224
    assert document["bytes"] == 17_739_136
    assert document["parts"]["experts"]["bytes"] == 12_386_304
    assert document["n_files"] == 1
    assert document["runs_here"] is True


def test_a_header_alone_is_enough(tmp_path: Path) -> None:
    values = columns(invoke(str(write_minimax_m3(tmp_path / "m3.gguf"))).stdout)
    assert values["experts"].startswith("7,296 ")
    assert values["calls a token"] == "228"
    assert values["size"] == "207.6 GB"


def test_a_split_set_is_one_model(tmp_path: Path) -> None:
    tensors = list(mini_tensors().values())
    whole = columns(invoke(str(write_mini_m3(tmp_path / "m.gguf"))).stdout)
    for number, own in enumerate((tensors[:9], tensors[9:20], tensors[20:])):
        split = {
            "split.no": number,
            "split.count": 3,
            "split.tensors.count": len(tensors),
        }
        keys = split if number else {**MINI_METADATA, **split}
        write_gguf(tmp_path / f"s-{number + 1:05d}-of-00003.gguf", keys, own)
    for path in tmp_path.glob("s-*"):
        values = columns(invoke(str(path)).stdout)
        assert values["files"].startswith("3 (")
        assert {**values, "files": ""} == {**whole, "files": ""}
    (tmp_path / "s-00002-of-00003.gguf").unlink()
    missing = invoke(str(path)).exception
    assert isinstance(missing, ModelFileError)
    assert "1 of its 3 parts are missing: s-00002-of-00003.gguf" in str(missing)


def test_kimi_k3_is_shown_and_said_not_to_run(tmp_path: Path) -> None:
    shown = invoke(str(write_kimi_k3(tmp_path / "k3.gguf")))
    assert shown.exit_code == 0
    values = columns(shown.stdout)
    assert values["parameters"] == "2.8 T"
    assert values["active parameters"] == "104.2 B"
    assert values["at 4 bits a parameter"] == "1.4 TB"
    assert values["experts"] == "82,432 (92 layers x 896)"
    assert values["runs here"].startswith("no: Kimi-K3 is not run here")


def test_what_is_no_model_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "text.gguf").write_text("Once upon a time")
    shown = invoke(str(tmp_path / "text.gguf"))
    assert isinstance(shown.exception, ModelFileError)
    assert "is no GGUF file" in str(shown.exception)
    with pytest.raises(ModelFileError):
        raise shown.exception
