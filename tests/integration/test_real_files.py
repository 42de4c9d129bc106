"""Files as hosts have them, of each family and each age, load and are right."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mobile_worker.arithmetic.profiles import Profile
from p2pmoe.inspect.inventory import take_inventory
from p2pmoe.inspect.obstacles import judge
from p2pmoe.model.errors import ModelRefused
from p2pmoe.model.local_experts import LocalExperts
from p2pmoe.model.model import Logits, load_model
from p2pmoe.text.errors import PretokenizerUnknown
from p2pmoe.text.loading import load_vocabulary
from p2pmoe.text.tokenizer import Tokenizer
from p2pmoe.weights.model_file import open_model, read_header
from tests.support.gguf_writer import TensorBytes
from tests.support.kernels import fastest_kernel
from tests.support.mini_models import vector
from tests.support.real_files import REAL_FILES, real_file
from tests.support.real_folders import as_hub_cache
from tests.support.real_headers import RealFile, write_real
from tests.support.real_tables import NEXTN

PROMPT = [1, 2, 35, 4, 70, 6, 7, 200]
SILENT = [file for file in REAL_FILES if file.pre is None]


def name_of(file: RealFile) -> str:
    return file.name


def logits_of(path: Path, prompt: list[int] = PROMPT) -> np.ndarray:
    with open_model(path) as model_file:
        model = load_model(model_file, fastest_kernel())
        experts = LocalExperts.load(model_file, fastest_kernel(), Profile.R32)
        cache = model.new_cache(len(prompt))
        return model.forward(prompt, cache, experts, logits=Logits.ALL)


@pytest.mark.parametrize("file", REAL_FILES, ids=name_of)
def test_a_published_file_runs_and_inspect_says_so(
    file: RealFile, tmp_path: Path
) -> None:
    path = write_real(file, tmp_path)
    header = read_header(path)
    obstacles = judge(header, take_inventory(header)).obstacles
    assert len(obstacles) == (file.pre is None), obstacles
    logits = logits_of(path)
    assert np.isfinite(logits).all()
    assert np.ptp(logits) > 1


@pytest.mark.parametrize(
    "file", [file for file in REAL_FILES if file.pre is not None], ids=name_of
)
def test_its_tokenizer_gives_a_text_back(file: RealFile, tmp_path: Path) -> None:
    vocabulary = load_vocabulary(read_header(write_real(file, tmp_path)))
    tokenizer = Tokenizer(vocabulary)
    ids = tokenizer.encode("hello world 333", bos=True)
    assert tokenizer.decode(ids).strip() == b"hello world 333"
    assert ids[0] == vocabulary.bos_id
    assert vocabulary.eos_id in vocabulary.stop_ids


@pytest.mark.parametrize("file", SILENT, ids=name_of)
def test_no_pre_tokenizer_is_guessed_for_a_file_that_names_none(
    file: RealFile, tmp_path: Path
) -> None:
    header = read_header(write_real(file, tmp_path))
    with pytest.raises(PretokenizerUnknown, match="is missing in the file"):
        load_vocabulary(header)
    assert load_vocabulary(header, "qwen2").pretokenizer == "qwen2"


def test_experts_of_their_own_tensors_are_those_of_one(tmp_path: Path) -> None:
    """The same bytes stacked, as converters since 2024 write them, give the same."""
    file = real_file("mixtral-8x7b")
    alone = {tensor.name: tensor for tensor in file.tensors}
    stacked = []
    for layer in (0, 1):
        for part in ("gate", "up", "down"):
            own = [alone[f"blk.{layer}.ffn_{part}.{e}.weight"] for e in range(4)]
            stacked.append(
                TensorBytes(
                    name=f"blk.{layer}.ffn_{part}_exps.weight",
                    type=own[0].type,
                    shape=(4, *own[0].shape),
                    content=b"".join(tensor.content for tensor in own),
                )
            )
    names = [f"ffn_{part}.{e}." for part in ("gate", "up", "down") for e in range(4)]
    newer = write_real(file, tmp_path, {}, stacked, without=names)
    assert "blk.1.ffn_up.3.weight" not in read_header(newer).tensors
    after = logits_of(newer)
    assert np.array_equal(logits_of(write_real(file, tmp_path)), after)


@pytest.mark.parametrize(
    ("start", "groups", "used"), [("DeepSeek-V2.5", 8, 3), ("DeepSeek-R1", 8, 4)]
)
def test_an_older_deepseek_has_its_published_groups(
    start: str, groups: int, used: int, tmp_path: Path
) -> None:
    """Old files do not say them; llama.cpp then chooses among all experts."""
    prompt = list(range(3, 63))
    silent = logits_of(write_real(real_file(start), tmp_path), prompt)

    def said(n_groups: int, n_used: int) -> np.ndarray:
        keys = {
            "deepseek2.expert_group_count": n_groups,
            "deepseek2.expert_group_used_count": n_used,
        }
        return logits_of(write_real(real_file(start), tmp_path, keys), prompt)

    assert np.array_equal(silent, said(groups, used))
    assert not np.array_equal(silent, said(1, 1))


def test_an_older_kimi_k2_turns_as_it_was_published(tmp_path: Path) -> None:
    """Its YaRN has one border, beta_fast = beta_slow, which old files do not say."""
    file, prompt = real_file("Kimi-K2"), list(range(3, 63))

    def said(beta_fast: float | None) -> np.ndarray:
        keys = {"deepseek2.rope.scaling.yarn_beta_fast": beta_fast}
        return logits_of(write_real(file, tmp_path, keys), prompt)

    assert np.array_equal(said(None), said(1.0))
    assert not np.array_equal(said(None), said(32.0))


@pytest.mark.parametrize("start", ["GLM-4.5-Air", "GLM-4.6"])
def test_what_predicts_further_tokens_is_left_out(start: str, tmp_path: Path) -> None:
    """As in files that were stripped of it, keys and all."""
    file = real_file(start)
    stripped = {"glm4moe.block_count": 2, "glm4moe.nextn_predict_layers": None}
    whole = logits_of(write_real(file, tmp_path))
    path = write_real(file, tmp_path, stripped, without=["blk.2."])
    assert np.array_equal(whole, logits_of(path))


def test_a_deepseek_may_predict_further_tokens_too(tmp_path: Path) -> None:
    """Converters left that block out for years; if it is there, it is not computed."""
    file = real_file("DeepSeek-R1")
    whole = replace(file, tables=(*file.tables, NEXTN), sizes={"X": 256, "LAYERS": 3})
    keys = {"deepseek2.block_count": 3, "deepseek2.nextn_predict_layers": 1}
    plain = logits_of(write_real(file, tmp_path))
    assert np.array_equal(plain, logits_of(write_real(whole, tmp_path, keys)))


@pytest.mark.parametrize("start", ["mixtral-8x7b", "Mixtral-8x22B"])
def test_rotary_factors_of_one_change_nothing(start: str, tmp_path: Path) -> None:
    file = real_file(start)
    half = file.size("H") // 2
    ones = TensorBytes(
        name="rope_freqs.weight",
        type=0,
        shape=(half,),
        content=np.ones(half, "<f4").tobytes(),
    )
    table = vector("blk.0.attn_rot_embd.weight", half)
    plain = logits_of(write_real(file, tmp_path))
    path = write_real(file, tmp_path, {}, [ones, table])
    assert np.array_equal(plain, logits_of(path))


def test_a_flat_latent_beside_the_whole_one_is_passed_over(tmp_path: Path) -> None:
    """A fork of llama.cpp writes attn_k_b and attn_v_b in two dimensions, too."""
    file = real_file("DeepSeek-V2-Lite")
    flat = [
        vector(f"blk.{layer}.{part}.weight", 64 * 128)
        for layer in range(27)
        for part in ("attn_k_b", "attn_v_b")
    ]
    more = [
        TensorBytes(name=t.name, type=0, shape=(128, 64), content=t.content)
        for t in flat
    ]
    plain = logits_of(write_real(file, tmp_path))
    assert np.array_equal(plain, logits_of(write_real(file, tmp_path, {}, more)))


def test_a_split_set_in_a_hubs_cache_is_found_by_its_links(tmp_path: Path) -> None:
    """Every part is a link to a blob whose name says nothing."""
    file, folder = real_file("Qwen3-30B"), tmp_path / "own"
    folder.mkdir()
    plain = logits_of(write_real(file, folder))
    snapshot = as_hub_cache(folder, tmp_path / "cache")
    for part in sorted(snapshot.iterdir()):
        assert np.array_equal(plain, logits_of(part))
    assert np.array_equal(plain, logits_of(snapshot))


@pytest.mark.parametrize(
    ("window", "is_refused"), [(131072, False), (131071, True), (0, False)]
)
def test_a_window_as_long_as_the_context_hides_nothing(
    window: int, is_refused: bool, tmp_path: Path
) -> None:
    file, key = real_file("Qwen3-30B"), "qwen3moe.attention.sliding_window"
    path = write_real(file, tmp_path, {key: window})
    if is_refused:
        with pytest.raises(ModelRefused, match=f"key {key} is set"):
            logits_of(path)
    else:
        assert np.isfinite(logits_of(path)).all()
