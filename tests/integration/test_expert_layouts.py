"""Fault B05: one tiny MoE saved in three layouts computes the same, to the bit.

The same quantised bytes lie stacked, in tensors of each expert's own, and with gate and
up merged; gate and up are Q8_0, down is Q4_0, and every expert has biases. Logits are
those of the whole model through the decoder.
"""

from pathlib import Path

import numpy as np
import pytest

from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.self_test import fixed_matrix, fixed_rows
from p2pmoe.backbone.local_side import LocalOptions, LocalSide
from p2pmoe.model.local_experts import LocalExperts
from p2pmoe.model.model import Logits, load_model
from p2pmoe.weights.errors import ModelFileError, UnsupportedModel
from p2pmoe.weights.manifest import build_manifest
from p2pmoe.weights.model_file import open_model
from tests.support.gguf_writer import TensorBytes, write_gguf
from tests.support.mini_m3 import MINI_METADATA, mini_tensors

N_EMBD, N_FF, N_EXPERT = 64, 32, 4
PROMPT = list(range(3, 40, 2))
SHAPES = {"gate": (N_FF, N_EMBD), "up": (N_FF, N_EMBD), "down": (N_EMBD, N_FF)}
FORMATS = {"gate": Format.Q8_0, "up": Format.Q8_0, "down": Format.Q4_0}


def weights(word: str, expert: int) -> bytes:
    return bytes(fixed_matrix(f"{word}{expert}", FORMATS[word], *SHAPES[word]).raw)


def bias(word: str, expert: int) -> bytes:
    values = fixed_rows(f"bias {word}{expert}", 1, SHAPES[word][0])[0]
    return values.astype("<f4").tobytes()


def tensor(name: str, kind: Format, shape: tuple[int, ...], raw: bytes) -> TensorBytes:
    return TensorBytes(name=f"blk.1.{name}", type=int(kind), shape=shape, content=raw)


def stacked(words: tuple[str, ...] = ("gate", "up", "down")) -> list[TensorBytes]:
    found = []
    for word in words:
        n_rows, n_cols = SHAPES[word]
        raw = b"".join(weights(word, e) for e in range(N_EXPERT))
        shape = (N_EXPERT, n_rows, n_cols)
        found.append(tensor(f"ffn_{word}_exps.weight", FORMATS[word], shape, raw))
        raw = b"".join(bias(word, e) for e in range(N_EXPERT))
        shape = (N_EXPERT, n_rows)
        found.append(tensor(f"ffn_{word}_exps.bias", Format.F32, shape, raw))
    return found


def per_expert() -> list[TensorBytes]:
    found = []
    for word, shape in SHAPES.items():
        for e in range(N_EXPERT):
            name = f"ffn_{word}.{e}"
            found += [
                tensor(f"{name}.weight", FORMATS[word], shape, weights(word, e)),
                tensor(f"{name}.bias", Format.F32, shape[:1], bias(word, e)),
            ]
    return found


def merged(
    name: str = "ffn_gate_up_exps", first: str = "gate", second: str = "up"
) -> list[TensorBytes]:
    experts = range(N_EXPERT)
    both = b"".join(weights(first, e) + weights(second, e) for e in experts)
    biases = b"".join(bias(first, e) + bias(second, e) for e in experts)
    shape = (N_EXPERT, 2 * N_FF, N_EMBD)
    return [
        tensor(f"{name}.weight", Format.Q8_0, shape, both),
        tensor(f"{name}.bias", Format.F32, shape[:2], biases),
        *stacked(("down",)),
    ]


def write(path: Path, experts: list[TensorBytes]) -> Path:
    others = [t for name, t in mini_tensors().items() if "_exps" not in name]
    return write_gguf(path, MINI_METADATA, [*others, *experts])


def logits(path: Path) -> np.ndarray:
    kernel = NumpyKernel()
    with open_model(path) as model_file:
        model = load_model(model_file, kernel)
        experts = LocalExperts.load(model_file, kernel)
    cache = model.new_cache(len(PROMPT))
    return model.forward(PROMPT, cache, experts, logits=Logits.ALL)


@pytest.mark.parametrize("form", [per_expert, merged])
def test_b05_logits_are_bit_equal_across_the_forms(tmp_path: Path, form) -> None:
    one = logits(write(tmp_path / "stacked.gguf", stacked()))
    other = logits(write(tmp_path / "other.gguf", form()))
    assert np.isfinite(one).all()
    assert one.tobytes() == other.tobytes()


def test_b05_shards_are_the_same_so_workers_need_not_know_the_form(
    tmp_path: Path,
) -> None:
    manifests = []
    for number, form in enumerate((stacked, per_expert, merged)):
        with open_model(write(tmp_path / f"{number}.gguf", form())) as model_file:
            manifests.append(build_manifest(model_file))
    digests = [[entry.digest for entry in m.experts] for m in manifests]
    assert digests[0] == digests[1] == digests[2]
    assert manifests[0].layouts == manifests[1].layouts == manifests[2].layouts
    assert manifests[0].layouts[0].biased


def test_b05_swapped_halves_are_another_model(tmp_path: Path) -> None:
    """The known name means gate first; whoever writes up first gives other logits."""
    one = logits(write(tmp_path / "merged.gguf", merged()))
    swapped = write(tmp_path / "swapped.gguf", merged(first="up", second="gate"))
    assert logits(swapped).tobytes() != one.tobytes()


def test_b05_an_unknown_half_order_is_refused_before_anything_is_computed(
    tmp_path: Path,
) -> None:
    tensors = merged("ffn_up_gate_exps", "up", "gate")
    path = write(tmp_path / "unknown.gguf", tensors)
    with pytest.raises(UnsupportedModel, match="which half is gate"):
        LocalSide(open_model(path), LocalOptions(data=tmp_path))


def test_biases_count(tmp_path: Path) -> None:
    plain = [t for t in stacked() if not t.name.endswith("bias")]
    one = logits(write(tmp_path / "plain.gguf", plain))
    assert logits(write(tmp_path / "biased.gguf", stacked())).tobytes() != one.tobytes()


def test_a_bias_that_is_no_number_is_refused_and_named(tmp_path: Path) -> None:
    tensors = stacked()
    bad = bytearray(tensors[3].content)
    bad[-4:] = b"\0\0\xc0\x7f"
    tensors[3] = tensor("ffn_up_exps.bias", Format.F32, (N_EXPERT, N_FF), bytes(bad))
    with pytest.raises(ModelFileError, match=r"up bias of expert 1\.3: value 31"):
        logits(write(tmp_path / "bad.gguf", tensors))
