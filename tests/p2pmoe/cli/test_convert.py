"""`p2pmoe convert`: what it writes runs, and gives the tokens of its source."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import gguf
import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from p2pmoe.cli.convert import register
from p2pmoe.convert.errors import FormatNotWritable, TargetUnusable
from p2pmoe.convert.precision import DEFAULT_PRECISION, plan_conversion
from p2pmoe.model.local_experts import LocalExperts
from p2pmoe.model.model import describe_model, load_model
from p2pmoe.text.tokenizer import load_tokenizer
from p2pmoe.weights.model_file import open_model
from tests.support.command_line import NO_FILES, PROGRAM, assert_one_error, run
from tests.support.mini_m3 import write_mini_m3
from tests.support.shared import shared_path
from tests.support.tiny_folders import TINY_FOLDERS
from tests.support.tiny_model import TinyModel
from tests.support.vocabularies import byte_level_metadata

M3 = {"general.architecture": "minimax-m3"}
KEEP = ("--experts", "keep", "--router", "keep", "--rest", "keep")


def invoke(*arguments: str):
    app = typer.Typer()
    register(app)
    app.command("other")(lambda: None)
    return CliRunner().invoke(app, ["convert", *arguments])


def mini(path: Path, **keys: object) -> Path:
    return write_mini_m3(path, {**byte_level_metadata(), **M3, **keys})


def test_the_default_writes_experts_in_four_bits(tmp_path: Path) -> None:
    out = tmp_path / "out.gguf"
    shown = invoke(str(mini(tmp_path / "m.gguf")), str(out))
    assert shown.exit_code == 0, shown.exception
    rows = [line.split("\t") for line in shown.stdout.splitlines()]
    assert rows[0] == ["format", "tensors", "copied", "bytes"]
    assert {row[0] for row in rows[1:]} >= {"Q4_0", "Q8_0", "F32"}
    assert f"wrote {out}" in shown.stderr
    with open_model(out) as model:
        assert model.tensor("blk.1.ffn_up_exps.weight").format.name == "Q4_0"
        assert model.tensor("blk.1.ffn_gate_inp.weight").format.name == "F32"
        written = [tensor.format for tensor in model.tensors.values()]
    with open_model(tmp_path / "m.gguf") as model:
        plan = plan_conversion(model, DEFAULT_PRECISION)
    assert written == [tensor.format for tensor in plan]


def test_what_was_asked_for_in_vain_is_told(tmp_path: Path) -> None:
    whole, narrow = mini(tmp_path / "m.gguf"), tmp_path / "narrow.gguf"
    assert "fewer bits" not in invoke(str(whole), str(narrow)).stderr
    shown = invoke(str(narrow), str(tmp_path / "w.gguf"), "--experts", "Q8_0")
    assert "3 tensors have fewer bits than asked for" in shown.stderr
    with open_model(tmp_path / "w.gguf") as model:
        assert model.tensor("blk.1.ffn_up_exps.weight").format.name == "Q4_0"


def test_json_says_the_same(tmp_path: Path) -> None:
    out = tmp_path / "out.gguf"
    shown = invoke(str(mini(tmp_path / "m.gguf")), str(out), "--json")
    document = json.loads(shown.stdout)
    assert document["bytes"] == out.stat().st_size
    assert document["misfits"] == []
    assert sum(row["tensors"] for row in document["formats"]) == 34


def test_each_part_can_be_chosen(tmp_path: Path) -> None:
    out = tmp_path / "out.gguf"
    shown = invoke(
        str(mini(tmp_path / "m.gguf")),
        str(out),
        *("--experts", "q5_1", "--router", "bf16", "--attention", "q5_0"),
        *("--shared", "q4_1", "--dense", "mxfp4", "--embeddings", "q4_0"),
    )
    assert shown.exit_code == 0, shown.exception
    with open_model(out) as model:
        formats = {name: tensor.format.name for name, tensor in model.tensors.items()}
    assert formats["blk.1.ffn_down_exps.weight"] == "Q5_1"
    assert formats["blk.1.ffn_gate_inp.weight"] == "BF16"
    assert formats["blk.0.attn_q.weight"] == "Q5_0"
    assert formats["blk.1.ffn_up_shexp.weight"] == "Q4_1"
    assert formats["blk.0.ffn_up.weight"] == "MXFP4"
    assert formats["output.weight"] == "Q4_0"


def test_what_is_kept_gives_the_same_tokens(tmp_path: Path) -> None:
    source, out = mini(tmp_path / "m.gguf"), tmp_path / "out.gguf"
    shown = invoke(str(source), str(out), *KEEP, "--embeddings", "keep")
    assert shown.exit_code == 0, shown.exception
    answers: list[object] = []
    kernel = NumpyKernel()
    for path in (source, out):
        with open_model(path) as model:
            own = TinyModel(load_model(model, kernel), LocalExperts.load(model, kernel))
            answers.append(load_tokenizer(model).digest)
            answers.append(own.greedy([1, 2, 3], 8))
    assert answers[:2] == answers[2:]


@pytest.mark.parametrize("name", TINY_FOLDERS)
def test_a_folder_becomes_the_file_that_llama_cpp_writes(
    name: str, tmp_path: Path
) -> None:
    folder = shared_path(f"models/tiny/{name}")
    out = tmp_path / "out.gguf"
    shown = invoke(str(folder), str(out), *KEEP, "--embeddings", "keep")
    assert shown.exit_code == 0, shown.exception
    theirs = {t.name: t for t in gguf.GGUFReader(folder / "model-f32.gguf").tensors}
    written = gguf.GGUFReader(out)
    ours = {tensor.name: tensor for tensor in written.tensors}
    assert set(ours) <= set(theirs)  # next-token blocks may be left out
    for tensor_name, tensor in ours.items():
        assert list(tensor.shape) == list(theirs[tensor_name].shape)
        assert np.array_equal(tensor.data, theirs[tensor_name].data), tensor_name
    with open_model(folder) as source, open_model(out) as model:
        assert load_tokenizer(model).digest == load_tokenizer(source).digest
        assert describe_model(model) == describe_model(source)
        assert set(model.tensors) == set(source.tensors)


@pytest.mark.parametrize("name", ["gpt_oss", "deepseek_v3", "qwen3_moe"])
def test_a_converted_folder_gives_the_reference_s_ids(
    name: str, tmp_path: Path
) -> None:
    folder = shared_path(f"models/tiny/{name}")
    out = tmp_path / "out.gguf"
    assert invoke(str(folder), str(out), *KEEP, "--embeddings", "keep").exit_code == 0
    kernel = NumpyKernel()
    with open_model(out) as model, np.load(folder / "reference.npz") as reference:
        own = TinyModel(load_model(model, kernel), LocalExperts.load(model, kernel))
        greedy = own.greedy(reference["prompt"].tolist(), 8)
        assert greedy == reference["greedy"].tolist()[:8]


def test_a_folder_s_template_is_carried_over(tmp_path: Path) -> None:
    source = shared_path("models/tiny/olmoe")
    folder = tmp_path / "folder"
    folder.mkdir()
    for file in ("config.json", "model.safetensors", "tokenizer.json"):
        (folder / file).write_bytes((source / file).read_bytes())
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    out = tmp_path / "out.gguf"
    assert invoke(str(folder), str(out)).exit_code == 0
    with open_model(out) as model:
        assert model.metadata["tokenizer.chat_template"] == "{{ messages }}"
        assert model.tensor("blk.0.ffn_up_exps.weight").format.name == "Q4_0"
        assert model.metadata["general.file_type"] == 7


def test_a_pretokenizer_can_be_written(tmp_path: Path) -> None:
    source = mini(tmp_path / "m.gguf", **{"tokenizer.ggml.pre": "unknown-xyz"})
    out = tmp_path / "out.gguf"
    assert invoke(str(source), str(out), "--pre-tokenizer", "qwen2").exit_code == 0
    with open_model(out) as model:
        assert model.metadata["tokenizer.ggml.pre"] == "qwen2"


def test_rows_that_do_not_fit_are_told(tmp_path: Path) -> None:
    pocket = Path(__file__).resolve().parents[3] / "p2pmoe/models/pocket-q4_0.gguf"
    shown = invoke(str(pocket), str(tmp_path / "out.gguf"))
    assert shown.exit_code == 0
    assert "do not fit" not in shown.stderr


def test_nothing_begins_where_it_could_not_end(tmp_path: Path) -> None:
    source = mini(tmp_path / "m.gguf")
    out = tmp_path / "out.gguf"
    refused = invoke(str(source), str(out), "--experts", "IQ3_S")
    assert isinstance(refused.exception, FormatNotWritable)
    out.write_bytes(b"precious")
    assert isinstance(invoke(str(source), str(out)).exception, TargetUnusable)
    assert out.read_bytes() == b"precious"
    assert invoke(str(source), str(out), "--force").exit_code == 0


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    source, out = mini(tmp_path / "m.gguf"), tmp_path / "out.gguf"
    full = run("convert", str(source), str(out), within=NO_FILES)
    assert_one_error(full, "cannot be written: file too large")
    assert [path.name for path in tmp_path.iterdir()] == ["m.gguf"]


@pytest.mark.slow
def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    """The demo's model to MXFP4 takes some seconds; it is stopped once it writes."""
    out = tmp_path / "out.gguf"
    # Tests in the background of a shell ignore interrupts; the command must not.
    outer = signal.signal(signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(
        [*PROGRAM, "convert", "pocket", str(out), "--experts", "MXFP4"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    signal.signal(signal.SIGINT, outer)
    deadline = time.monotonic() + 60
    while not list(tmp_path.iterdir()):
        assert process.poll() is None
        assert time.monotonic() < deadline
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said == "interrupted\n"
    assert list(tmp_path.iterdir()) == []


def test_without_the_quantisers_it_is_one_line(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['gguf'] = None; "
        "from p2pmoe.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "convert", "a", str(tmp_path / "b")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "error: writing model files needs the extra packages of p2pmoe[convert]. "
        "Install them: pip install 'p2pmoe[convert]'"
    ]


@pytest.mark.parametrize("option", ["--experts", "--router", "--embeddings", "--rest"])
def test_a_format_that_is_none_is_named(tmp_path: Path, option: str) -> None:
    shown = invoke(str(mini(tmp_path / "m.gguf")), str(tmp_path / "o"), option, "Q9")
    assert isinstance(shown.exception, FormatNotWritable)
    assert "'Q9' is no format" in str(shown.exception)
