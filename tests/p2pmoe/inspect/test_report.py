"""Lines for people and the document for machines say the same."""

import json
from pathlib import Path

import pytest

from p2pmoe.inspect.inventory import take_inventory
from p2pmoe.inspect.obstacles import judge
from p2pmoe.inspect.on_disk import OnDisk
from p2pmoe.inspect.report import (
    as_document,
    decimal_size,
    format_rows,
    part_rows,
    summary,
)
from p2pmoe.weights.model_file import read_header
from tests.support.header_only import write_minimax_m3
from tests.support.mini_m3 import write_mini_m3
from tests.support.vocabularies import byte_level_metadata

ONE = OnDisk(n_files=1, n_bytes=9)
M3 = {"general.architecture": "minimax-m3"}


@pytest.mark.parametrize(
    ("n_bytes", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (207_600_000_000, "207.6 GB"),
        (1_416_345_985_408, "1.4 TB"),
    ],
)
def test_sizes_are_decimal(n_bytes: int, shown: str) -> None:
    assert decimal_size(n_bytes) == shown


def test_the_lines_of_a_model_of_terabytes(tmp_path: Path) -> None:
    header = read_header(write_minimax_m3(tmp_path / "m3.gguf"))
    inventory = take_inventory(header)
    lines = summary(
        inventory, judge(header, inventory), OnDisk(n_files=3, n_bytes=75648)
    )
    assert lines["layers"] == "60 (3 dense, 57 MoE)"
    assert lines["experts"] == "7,296 (57 layers x 128)"
    assert lines["calls a token"] == "228"
    assert lines["size"] == "207.6 GB"
    assert lines["files"] == "3 (75.6 kB on disk)"
    assert str(lines["runs here"]).startswith("no: format IQ3_S")
    rows = part_rows(inventory)
    assert rows[0]["part"] == "routed experts"
    assert rows[-1]["bytes"] == sum(row["bytes"] for row in rows[:-1])  # type: ignore[misc]
    assert [row["format"] for row in format_rows(inventory)][:2] == ["IQ3_S", "IQ4_XS"]


def test_the_document_is_plain_json(tmp_path: Path) -> None:
    keys = {**byte_level_metadata(), **M3}
    path = write_mini_m3(tmp_path / "m.gguf", keys, n_vocab=300)
    header = read_header(path)
    inventory = take_inventory(header)
    document = as_document(inventory, judge(header, inventory), ONE)
    assert json.loads(json.dumps(document)) == document
    assert document["runs_here"] is True
    assert document["experts"] == {
        "layers": [1],
        "per_layer": [4],
        "total": 4,
        "top_k": 2,
        "calls_per_token": 2,
        "min_bytes": 3 * 64 * 34,
        "max_bytes": 3 * 64 * 34,
    }
    tokenizer = document["tokenizer"]
    assert isinstance(tokenizer, dict)
    assert tokenizer["kind"] == "gpt2"
    assert document["has_chat_template"] is False
    lines = summary(inventory, judge(header, inventory), ONE)
    assert str(lines["chat template"]).startswith("none")
    assert document["chat_template_fault"] is None


def test_b07_a_template_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    keys = {"tokenizer.chat_template": "{% for"}
    header = read_header(write_mini_m3(tmp_path / "m.gguf", keys))
    inventory = take_inventory(header)
    lines = summary(inventory, judge(header, inventory), ONE)
    assert str(lines["chat template"]).startswith("refused: chat template does not")


def test_names_cannot_steer_the_terminal(tmp_path: Path) -> None:
    name = "\x1b[2J\n\x9b" + "m" * 500
    header = read_header(write_mini_m3(tmp_path / "m.gguf", {"general.name": name}))
    inventory = take_inventory(header)
    shown = str(summary(inventory, judge(header, inventory), ONE)["name"])
    assert shown.isprintable()
    assert len(shown) <= 120
