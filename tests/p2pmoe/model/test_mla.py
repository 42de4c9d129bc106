import dataclasses

import numpy as np
import pytest

from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.codecs import dequantize
from mobile_worker.arithmetic.matrix import Matrix
from mobile_worker.arithmetic.self_test import fixed_matrix, fixed_rows
from p2pmoe.model.attention import AttentionRule
from p2pmoe.model.errors import ModelRefused
from p2pmoe.model.head_products import HeadProducts, split_heads
from p2pmoe.model.linear import Linear
from p2pmoe.model.mla import LatentQuery, LatentSizes, MlaLayer
from p2pmoe.model.native_operations import operations_for
from p2pmoe.model.rope import Rope
from p2pmoe.model.rope_settings import RopeSettings
from p2pmoe.model.step import StepRows
from tests.support.kernels import all_kernels, kernel_name

N_EMBD, EPS = 64, np.float32(1e-6)
SIZES = LatentSizes(n_heads=4, n_nope=32, n_rope=8, n_value=16, n_latent=32, n_query=64)
ROPE = Rope(RopeSettings(n_rotated=8, base=100.0, interleaved=True))
ROWS = fixed_rows("a", 12, N_EMBD) / np.float32(8)
SCALE = 40**-0.5


def matrix(name: str, n_rows: int, n_cols: int, block_format: Format) -> Matrix:
    return fixed_matrix(name, block_format, n_rows, n_cols)


def layer(
    *, lite: bool = False, block_format: Format = Format.F32, kernel=None
) -> tuple[MlaLayer, dict[str, np.ndarray]]:
    """Return a layer and its matrices as numbers."""
    kernel = kernel or all_kernels()[-1]
    n_query = SIZES.n_heads * SIZES.n_head
    own = {
        "q_a": matrix("q_a", n_query if lite else 64, N_EMBD, block_format),
        "q_b": matrix("q_b", n_query, 64, block_format),
        "kv_a": matrix("kv_a", 40, N_EMBD, block_format),
        "k_b": matrix("k_b", 4 * 32, 32, block_format),
        "v_b": matrix("v_b", 4 * 16, 32, block_format),
        "o": matrix("o", N_EMBD, 4 * 16, block_format),
    }
    norm = np.linspace(0.5, 1.5, 64, dtype=np.float32)
    query = LatentQuery(norm=norm, up=Linear(kernel, own["q_b"]))
    made = MlaLayer(
        sizes=dataclasses.replace(SIZES, n_query=None) if lite else SIZES,
        down=Linear(kernel, own["q_a"], own["kv_a"]),
        query=None if lite else query,
        latent_norm=norm[:32],
        absorb=HeadProducts(kernel, lambda: split_heads(own["k_b"], 4)),
        expand=HeadProducts(kernel, lambda: split_heads(own["v_b"], 4)),
        output=Linear(kernel, own["o"]),
        rope=ROPE,
        rule=AttentionRule(scale=SCALE),
        eps=EPS,
        operations=operations_for(kernel),
    )
    return made, {
        name: dequantize(part).astype(np.float64) for name, part in own.items()
    }


def rms(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * weight


def turned(x: np.ndarray) -> np.ndarray:
    """Turn neighbours of x [n, n_heads, 8] as complex numbers."""
    angles = np.arange(len(x))[:, None] * 100.0 ** (-np.arange(0, 8, 2) / 8)
    pairs = (x[:, :, 0::2] + 1j * x[:, :, 1::2]) * np.exp(1j * angles)[:, None]
    return np.stack((pairs.real, pairs.imag), -1).reshape(x.shape)


def unabsorbed(own: dict[str, np.ndarray], lite: bool) -> np.ndarray:
    """Attend as the paper first writes it: keys and values of each head are made."""
    a = ROWS.astype(np.float64)
    norm = np.linspace(0.5, 1.5, 64)
    q = a @ own["q_a"].T
    if not lite:
        q = rms(q, norm) @ own["q_b"].T
    q = q.reshape(12, 4, 40)
    kv = a @ own["kv_a"].T
    latent, key = rms(kv[:, :32], norm[:32]), turned(kv[:, None, 32:])
    k_nope = np.einsum("pl,hld->phd", latent, own["k_b"].reshape(4, 32, 32))
    values = np.einsum("pl,hvl->phv", latent, own["v_b"].reshape(4, 16, 32))
    scores = np.einsum("nhd,phd->hnp", q[:, :, :32], k_nope)
    scores += np.einsum("nhd,pd->hnp", turned(q[:, :, 32:]), key[:, 0])
    scores = scores * SCALE + np.where(np.tri(12), 0.0, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    mixed = np.einsum("hnp,phv->nhv", weights, values)
    return mixed.reshape(12, -1) @ own["o"].T


def run(made: MlaLayer, steps: list[int], capacity: int = 12):
    kept, at, parts = made.empty_cache(capacity, capacity), 0, []
    for n in steps:
        parts.append(made(ROWS[at : at + n], [kept], StepRows.one(at, n)))
        at += n
    return np.concatenate(parts), kept


@pytest.mark.parametrize("lite", [False, True])
def test_the_absorbed_form_is_attention_with_each_heads_keys(lite: bool) -> None:
    made, own = layer(lite=lite)
    result, _ = run(made, [12])
    expected = unabsorbed(own, lite)
    assert np.abs(result - expected).max() < 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("block_format", [Format.F32, Format.Q8_0])
@pytest.mark.parametrize("steps", [[1] * 12, [11, 1], [5, 7]])
def test_rows_are_the_same_in_any_batch(steps: list[int], block_format: Format) -> None:
    made, _ = layer(block_format=block_format)
    whole, first = run(made, [12])
    parts, second = run(made, steps)
    assert parts.tobytes() == whole.tobytes()
    assert first.keys.tobytes() == second.keys.tobytes()
    assert first.values.tobytes() == second.values.tobytes()


@pytest.mark.parametrize("kernel", all_kernels(), ids=kernel_name)
@pytest.mark.parametrize("block_format", [Format.F32, Format.Q8_0])
def test_all_kernels_give_the_same_bytes(kernel, block_format: Format) -> None:
    own, _ = run(layer(block_format=block_format, kernel=kernel)[0], [12])
    reference, _ = run(layer(block_format=block_format)[0], [12])
    assert own.tobytes() == reference.tobytes()


def test_the_cache_holds_the_latent_and_one_key_for_all_heads() -> None:
    made, _ = layer()
    _, kept = run(made, [12], capacity=20)
    assert kept.keys.shape == (1, 40, 20)
    assert kept.values.shape == (20, 1, 32)
    assert np.array_equal(kept.keys[0, :32].T, kept.values[:, 0])
    assert kept.n_bytes == 20 * SIZES.kv_bytes_per_token == 20 * 72 * 4
    assert not kept.values[12:].any()


@pytest.mark.parametrize(
    "bent",
    [{"n_nope": 0}, {"n_nope": -8}, {"n_rope": 0}, {"n_rope": 6}, {"n_latent": 33}],
)
def test_widths_that_do_not_fit_are_refused(bent: dict[str, int]) -> None:
    with pytest.raises(ModelRefused):
        dataclasses.replace(SIZES, **bent)
