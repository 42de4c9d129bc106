"""The demo's 64 tokens, computed in one process by each kernel that is here.

Whatever multiplies, and whatever computes attention beside it, the ids are those stored
for the demo. Where everything is required, no kind of kernel may be missing.
"""

import os
from pathlib import Path

import pytest

from p2pmoe.backbone.generation import GenerationRequest
from p2pmoe.backbone.local_side import LocalOptions, LocalSide
from p2pmoe.demo.facts import hash_tokens
from p2pmoe.demo.story import Script
from p2pmoe.model.sampler import SamplingSettings
from p2pmoe.text.tokenizer import load_tokenizer
from tests.support.backbone_model import POCKET, model_of
from tests.support.demo_facts import DEMO_TOKENS_SHA256
from tests.support.kernels import all_kernels
from tests.support.lanes import decode_alone

SCRIPT = Script()
HERE = [kernel.name for kernel in all_kernels()]


def local_side(folder: Path, kernel: str, n_threads: int) -> LocalSide:
    options = LocalOptions(data=folder, kernel=kernel, n_threads=n_threads)
    local = LocalSide(model_of(POCKET), options)
    local.hot.fill(local.use.decayed())
    return local


def tokens_of(local: LocalSide) -> list[int]:
    """Return the ids that this local side draws for the demo's prompt."""
    tokenizer = load_tokenizer(model_of(POCKET))
    request = GenerationRequest(
        prompt_ids=tuple(
            tokenizer.encode(SCRIPT.prompt, bos=tokenizer.vocabulary.add_bos)
        ),
        sampling=SamplingSettings(temperature=SCRIPT.temperature, seed=SCRIPT.seed),
        max_tokens=SCRIPT.max_tokens,
    )
    return decode_alone(local, request)[0]


@pytest.mark.skipif(
    os.environ.get("P2PMOE_REQUIRE_SHARED") != "1",
    reason="a machine without a compiler or wasmtime may lack a kind of kernel",
)
def test_no_kind_of_kernel_is_missing() -> None:
    assert {"native/portable", "wasm/relaxed", "wasm/plain", "numpy"} <= set(HERE)


@pytest.mark.parametrize("kernel", HERE)
def test_every_kernel_draws_the_stored_tokens(kernel: str, tmp_path: Path) -> None:
    tokens = tokens_of(local_side(tmp_path, kernel, n_threads=1))
    assert len(tokens) == 64
    assert hash_tokens(tokens) == DEMO_TOKENS_SHA256


@pytest.mark.skipif("native/portable" not in HERE, reason="native is not built")
@pytest.mark.parametrize("n_threads", [2, 4])
def test_threads_change_nothing(n_threads: int, tmp_path: Path) -> None:
    tokens = tokens_of(local_side(tmp_path, "native", n_threads))
    assert hash_tokens(tokens) == DEMO_TOKENS_SHA256
