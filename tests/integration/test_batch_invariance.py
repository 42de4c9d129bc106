"""Rows of one step never influence each other, whatever computes them.

Specification 02, "Invariances": verifying k drafted tokens gives the logits of k single
steps, and any chunking of a prompt gives the same keys and values, bit for bit. On the
demo's model, with the fastest kernel of the machine and the operations it brings.
"""

import functools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from p2pmoe.model.kv_cache import KvCache
from p2pmoe.model.local_experts import LocalExperts
from p2pmoe.model.model import load_model
from p2pmoe.text.tokenizer import load_tokenizer
from p2pmoe.weights.model_file import open_model
from tests.support.kernels import (
    all_kernels,
    fastest_kernel,
    kernel_name,
    other_kernels,
)
from tests.support.mini_m3 import write_mini_m3
from tests.support.tiny_model import TinyModel

ROOT = Path(__file__).resolve().parents[2]
POCKET = ROOT / "p2pmoe/models/pocket-q4_0.gguf"
HELD_OUT = ROOT.parent / "shared/models/pocket/held-out.txt"
N_DRAFTED = 8
MAX_PROMPT = 96


def opened(path: Path, kernel) -> TinyModel:
    with open_model(path) as model_file:
        return TinyModel(
            load_model(model_file, kernel), LocalExperts.load(model_file, kernel)
        )


@functools.cache
def pocket(kernel) -> TinyModel:
    return opened(POCKET, kernel)


@functools.cache
def text_ids() -> list[int]:
    """Ids of held-out prose; in a clone without it, of the tokens' own texts."""
    with open_model(POCKET) as model_file:
        tokenizer = load_tokenizer(model_file)
    if HELD_OUT.exists():
        text = HELD_OUT.read_text(encoding="utf-8")[:200_000]
    else:
        parts = (tokenizer.token_bytes(i) for i in range(tokenizer.n_vocab))
        text = b"".join(parts).decode("utf-8", errors="replace")
    return tokenizer.encode(text, bos=False)


def passages(n: int) -> Iterator[tuple[list[int], list[int]]]:
    """Yield prompts of very different lengths and the tokens that go on after them."""
    rng = np.random.default_rng(7)
    ids = text_ids()
    for _ in range(n):
        length = int(rng.integers(1, MAX_PROMPT + 1))
        start = int(rng.integers(0, len(ids) - length - N_DRAFTED))
        end = start + length
        yield ids[start:end], ids[end : end + N_DRAFTED]


def kept(cache: KvCache) -> bytes:
    """Return every key and value that the cache holds."""
    parts = []
    for layer in cache.layers:
        parts.append(layer.keys[:, :, : cache.length].tobytes())
        parts.append(layer.values[: cache.length].tobytes())
        if layer.index_keys is not None:
            parts.append(layer.index_keys[:, :, : cache.length].tobytes())
    return b"".join(parts)


def check_verifying(own: TinyModel, prompt: list[int], drafted: list[int]) -> None:
    cache = own.model.new_cache(len(prompt) + N_DRAFTED)
    own.run(prompt, cache)
    single = [own.run([token], cache).tobytes() for token in drafted]
    after = kept(cache)
    for k in (1, 4, N_DRAFTED):
        cache.truncate(len(prompt))
        together = own.run(drafted[:k], cache)
        assert together.tobytes() == b"".join(single[:k])
    assert kept(cache) == after


def check_chunking(own: TinyModel, prompt: list[int], sizes: list[int]) -> None:
    whole = own.model.new_cache(len(prompt))
    logits = own.run(prompt, whole)
    for size in sizes:
        cache = own.model.new_cache(len(prompt))
        parts = [
            own.run(prompt[first : first + size], cache)
            for first in range(0, len(prompt), size)
        ]
        assert np.concatenate(parts).tobytes() == logits.tobytes()
        assert kept(cache) == kept(whole)


def test_verifying_drafted_tokens_is_stepping_through_them() -> None:
    own = pocket(fastest_kernel())
    for prompt, drafted in passages(5):
        check_verifying(own, prompt, drafted)


@pytest.mark.slow
def test_verifying_drafted_tokens_is_stepping_through_them_for_200_prompts() -> None:
    own = pocket(fastest_kernel())
    for prompt, drafted in passages(200):
        check_verifying(own, prompt, drafted)


def test_any_chunking_gives_the_same_keys_and_values() -> None:
    own = pocket(fastest_kernel())
    check_chunking(own, text_ids()[:90], [1, 7, 64])


@pytest.mark.slow
def test_any_chunking_of_a_long_prompt_gives_the_same_keys_and_values() -> None:
    own = pocket(fastest_kernel())
    check_chunking(own, text_ids()[:700], [1, 3, 128, 511])


OTHERS = pytest.mark.parametrize("kernel", other_kernels(), ids=kernel_name)


@OTHERS
def test_every_kernel_and_its_operations_give_numpys_logits(kernel) -> None:
    prompt = text_ids()[:40]
    own, reference = pocket(kernel), pocket(all_kernels()[-1])
    expected = reference.run(prompt, reference.model.new_cache(40))
    assert own.run(prompt, own.model.new_cache(40)).tobytes() == expected.tobytes()


@OTHERS
def test_block_sparse_layers_too(tmp_path: Path, kernel) -> None:
    """The made-up model leaves blocks out from position 16 on."""
    prompt = [(7 * i) % 96 for i in range(60)]
    path = write_mini_m3(tmp_path / "m.gguf")
    own, reference = opened(path, kernel), opened(path, all_kernels()[-1])
    check_verifying(own, prompt, prompt[:N_DRAFTED])
    check_chunking(own, prompt, [1, 9])
    expected = reference.run(prompt, reference.model.new_cache(60))
    assert own.run(prompt, own.model.new_cache(60)).tobytes() == expected.tobytes()
