from pathlib import Path

import numpy as np
import pytest

from mobile_worker.arithmetic.errors import NonFinite
from p2pmoe.model.errors import CacheFull, ModelRefused, TokenRefused
from p2pmoe.model.logits import Logits
from p2pmoe.model.soft_cap import soft_cap
from tests.support.mini_models import (
    MINI_ARCHITECTURES,
    mini_tensors,
    vector,
    write_mini,
)
from tests.support.tiny_model import TinyModel, load_local

PROMPT = [int(i) for i in np.random.default_rng(2).integers(0, 96, 40)]


def open_mini(folder: Path, architecture: str = "qwen2moe", **tensors) -> TinyModel:
    bent = {name.replace("__", "."): content for name, content in tensors.items()}
    return load_local(write_mini(folder / "m.gguf", architecture, None, bent))


@pytest.fixture(scope="module")
def mini(tmp_path_factory: pytest.TempPathFactory) -> TinyModel:
    return open_mini(tmp_path_factory.mktemp("mini"))


def test_the_last_row_is_the_last_of_all(mini: TinyModel) -> None:
    all_rows = mini.run(PROMPT, mini.model.new_cache(40))
    last = mini.run(PROMPT, mini.model.new_cache(40), Logits.LAST)
    assert last.tobytes() == all_rows[-1:].tobytes()
    assert last.shape == (1, 96)


def test_b17_drafts_rolled_back_leave_no_trace(mini: TinyModel) -> None:
    expected, _ = mini.in_steps(PROMPT, [30, 10])
    cache = mini.model.new_cache(48)
    mini.run(PROMPT[:30], cache)
    for n_drafts in (1, 4, 8):
        mini.run([5] * n_drafts, cache)  # always wrong
        cache.truncate(30)
        assert cache.length == 30
    logits = mini.run(PROMPT[30:], cache)
    assert logits.tobytes() == expected[30:].tobytes()


def test_b17_verifying_drafts_is_decoding_them(mini: TinyModel) -> None:
    cache = mini.model.new_cache(60)
    mini.run(PROMPT[:20], cache)
    drafts = [3, 9, 27, 81]
    verified = mini.run(drafts, cache)
    cache.truncate(20)
    for i, token in enumerate(drafts):
        alone = mini.run([token], cache, Logits.LAST)
        assert alone.tobytes() == verified[i : i + 1].tobytes()


def test_a_failed_step_leaves_the_cache_as_it_was(mini: TinyModel) -> None:
    class Failing:
        def begin(self, layer, hidden, routing):
            raise TimeoutError("nobody answers")

    cache = mini.model.new_cache(20)
    mini.run(PROMPT[:10], cache)
    with pytest.raises(TimeoutError):
        mini.model.forward([1, 2], cache, Failing())
    assert cache.length == 10
    expected, _ = mini.in_steps(PROMPT[:15], [10, 5])
    assert mini.run(PROMPT[10:15], cache).tobytes() == expected[10:].tobytes()


@pytest.mark.parametrize("architecture", MINI_ARCHITECTURES)
def test_a_file_may_cap_scores_and_logits(architecture: str, tmp_path: Path) -> None:
    def logits(name: str, **keys: float) -> np.ndarray:
        own = load_local(write_mini(tmp_path / name, architecture, keys))
        return own.run(PROMPT[:12], own.model.new_cache(12))

    plain = logits("plain", final_logit_softcapping=0.0)
    capped = logits("logits", final_logit_softcapping=0.5)
    assert capped.tobytes() == soft_cap(plain, 0.5).tobytes()
    assert np.abs(capped).max() <= 0.5 < np.abs(plain).max()
    scores = logits("scores", attn_logit_softcapping=0.01)
    if architecture != "gpt-oss":  # its sinks take part, others see themselves alone
        assert scores[0].tobytes() == plain[0].tobytes()
    assert np.abs(scores[11] - plain[11]).max() > 1e-4


@pytest.mark.parametrize("cap", [-1.0, 1e9])
def test_a_cap_that_is_none_is_refused(cap: float, tmp_path: Path) -> None:
    for key in ("attn_logit_softcapping", "final_logit_softcapping"):
        with pytest.raises(ModelRefused, match=f"{key}: .* is not in"):
            load_local(write_mini(tmp_path / "m", "olmoe", {key: cap}))


class Noting:
    """Serves experts and notes when."""

    def __init__(self, experts, order: list[str]) -> None:
        self.experts, self.order = experts, order

    def begin(self, layer, hidden, routing):
        self.order.append(f"begin {layer}")
        self.pending = self.experts.begin(layer, hidden, routing)
        return self

    def compute(self):
        self.order.append("compute")

    def is_ready(self):
        return True

    def finish(self):
        self.order.append("finish")
        return self.pending.finish()


def test_experts_are_begun_before_the_shared_one_and_finished_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = open_mini(tmp_path, "glm4moe")
    order: list[str] = []
    dense, shared = (layer.feed_forward for layer in own.model.layers)
    call = type(shared).__call__

    def noted(feed_forward, x):
        order.append("dense" if feed_forward is dense else "shared")
        return call(feed_forward, x)

    monkeypatch.setattr(type(shared), "__call__", noted)
    own.model.forward([1], own.model.new_cache(1), Noting(own.experts, order))
    assert order == ["dense", "begin 1", "shared", "compute", "finish"]


def test_experts_may_have_nothing_beside_them(tmp_path: Path) -> None:
    own = open_mini(tmp_path, "qwen3moe")
    order: list[str] = []
    own.model.forward([1], own.model.new_cache(1), Noting(own.experts, order))
    layer = ["compute", "finish"]
    assert order == ["begin 0", *layer, "begin 1", *layer]


def test_tokens_and_lengths_are_checked(mini: TinyModel) -> None:
    cache = mini.model.new_cache(4)
    for wrong in ([96], [-1], [1, 2, 500], []):
        with pytest.raises(TokenRefused):
            mini.run(wrong, cache)
    with pytest.raises(CacheFull):
        mini.run([1] * 5, cache)
    for n in (0, -1, 129):
        with pytest.raises(CacheFull, match="context of 128"):
            mini.model.new_cache(n)


def test_the_output_may_be_the_embedding(tmp_path: Path, mini: TinyModel) -> None:
    own = open_mini(tmp_path, output__weight=None)
    logits = own.run(PROMPT, own.model.new_cache(40))
    assert logits.shape == (40, 96)
    assert logits.tobytes() != mini.run(PROMPT, mini.model.new_cache(40)).tobytes()
    embedding = mini_tensors("qwen2moe")["token_embd.weight"].content
    same = open_mini(tmp_path, output__weight=embedding)
    assert same.run(PROMPT, same.model.new_cache(40)).tobytes() == logits.tobytes()


def test_a_value_that_overflows_ends_the_step(tmp_path: Path) -> None:
    huge = np.full(64, 3e38, "<f4").tobytes()
    own = open_mini(tmp_path, output_norm__weight=huge)
    cache = own.model.new_cache(4)
    with pytest.raises(NonFinite):
        own.run([1], cache)
    assert cache.length == 0


@pytest.mark.parametrize(
    "name",
    [
        *("output.bias", "output_norm.bias", "v.patch_embd.weight", "x", "blk.1"),
        *("blk.2.attn_norm.weight", "blk.01.attn_norm.weight", "1.x"),
    ],
)
def test_a_tensor_beside_the_layers_that_nobody_reads_is_refused(
    tmp_path: Path, name: str
) -> None:
    path = write_mini(tmp_path / "m.gguf", "olmoe", None, {name: vector(name, 64)})
    with pytest.raises(ModelRefused, match=f"tensor {name} has no place in olmoe"):
        load_local(path)
