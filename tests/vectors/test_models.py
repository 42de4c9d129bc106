"""Seeded models against transformers' logits: what the tiny folders do not cover.

YaRN far past the original length with each magnitude, groups of experts, latent
attention without compressed queries, biases without norms, dense layers between MoE
ones, windows, clipped projections, tied embeddings. Each as a GGUF file and as the
publisher's folder.
"""

from pathlib import Path

import numpy as np
import pytest

from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile
from p2pmoe.model.local_experts import LocalExperts
from p2pmoe.model.model import load_model
from p2pmoe.weights.model_file import open_model
from tests.support.kernels import fastest_kernel
from tests.support.seeded_gguf import write_case
from tests.support.seeded_models import CASES, Case, case_named, prompt_of
from tests.support.seeded_weights import write_folder
from tests.support.tiny_model import TinyModel

VECTORS = Path(__file__).with_name("models")
NAMES = [case.name for case in CASES]


def load(path: Path, kernel: Kernel) -> TinyModel:
    with open_model(path) as model_file:
        return TinyModel(
            load_model(model_file, kernel),
            LocalExperts.load(model_file, kernel, Profile.R32),
        )


def logits_of(own: TinyModel, prompt: list[int], steps: list[int]) -> np.ndarray:
    cache, parts, at = own.model.new_cache(len(prompt)), [], 0
    for n in steps:
        parts.append(own.run(prompt[at : at + n], cache))
        at += n
    return np.concatenate(parts)


def error_of(own: TinyModel, name: str) -> float:
    reference = np.load(VECTORS / f"{name}.npz")
    prompt = prompt_of(case_named(name))
    logits = logits_of(own, prompt, [len(prompt)])
    return float(np.abs(logits[reference["rows"]] - reference["logits"]).max())


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_logits_are_transformers(case: Case, tmp_path: Path) -> None:
    """References are f32, their angles too: at position 200 up to 1e-5 off.

    Weights that are 1e-7 off move a logit of these by up to 4e-5.
    """
    own = load(write_case(case, tmp_path), fastest_kernel())
    assert error_of(own, case.name) < 1e-4


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_the_publishers_folder_is_the_same_model(case: Case, tmp_path: Path) -> None:
    own = load(write_folder(case, tmp_path), fastest_kernel())
    gguf = load(write_case(case, tmp_path), fastest_kernel())
    prompt = prompt_of(case, 90)
    assert logits_of(own, prompt, [90]).tobytes() == (
        logits_of(gguf, prompt, [90]).tobytes()
    )


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_chunks_and_kernels_do_not_count(case: Case, tmp_path: Path) -> None:
    path, prompt = write_case(case, tmp_path), prompt_of(case, 90)
    own = load(path, fastest_kernel())
    whole = logits_of(own, prompt, [90]).tobytes()
    assert logits_of(own, prompt, [1, 63, 1, 25]).tobytes() == whole
    reference = load(path, NumpyKernel())
    assert logits_of(reference, prompt, [70, 20]).tobytes() == whole


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("deepseek_v3_yarn", "rope.scaling.yarn_log_multiplier", 0.0),
        ("deepseek_v3_yarn", "rope.scaling.original_context_length", 256),
        ("deepseek_v3_yarn", "expert_group_used_count", 4),
        ("deepseek_v3_yarn", "expert_weights_norm", False),
        ("deepseek_v3_yarn", "expert_gating_func", 1),
        ("deepseek_v2_yarn", "rope.scaling.yarn_log_multiplier", 0.1),
        ("deepseek_v2_yarn", "rope.scaling.factor", 20.0),
        ("deepseek_v2_groups", "expert_group_count", None),
        ("deepseek_v2_groups", "expert_weights_scale", 1.0),
        ("qwen3_moe_yarn", "rope.scaling.type", "linear"),
        ("qwen3_moe_yarn", "rope.scaling.yarn_attn_factor", 1.0),
        ("glm4_moe_biased", "expert_weights_scale", 1.0),
        ("mixtral_window", "attention.sliding_window", 17),
        ("olmoe_clip", "attention.clamp_kqv", None),
        ("gpt_oss_yarn", "attention.sliding_window", 15),
        ("gpt_oss_yarn", "rope.scaling.original_context_length", 64),
    ],
)
def test_each_number_counts(name: str, key: str, value: object, tmp_path: Path) -> None:
    """A reference that a wrong model would meet proves nothing."""
    case = case_named(name)
    bent = {f"{case.architecture}.{key}": value}
    if key == "expert_group_count":
        bent[f"{case.architecture}.expert_group_used_count"] = None
    own = load(write_case(case, tmp_path, bent), fastest_kernel())
    assert error_of(own, name) > 1e-3
