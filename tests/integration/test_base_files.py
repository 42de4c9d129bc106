"""Each architecture, from a base file and fetched experts: the same logits."""

from pathlib import Path

import pytest

from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from p2pmoe.backbone.base_model import open_by_manifest
from p2pmoe.backbone.fetched_experts import ExpertFetcher, FetchedExperts
from p2pmoe.model.local_experts import LocalExperts
from p2pmoe.model.model import Logits, load_model
from p2pmoe.weights.model_file import open_model
from tests.support.base_models import FAST, MANIFEST_URL, public_model
from tests.support.shared import shared_path

ARCHITECTURES = (
    "deepseek_v2",
    "deepseek_v3",
    "glm4_moe",
    "gpt_oss",
    "minimax_m2",
    "minimax_m3",
    "mixtral",
    "olmoe",
    "qwen2_moe",
    "qwen3_moe",
)
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_logits_are_those_of_the_whole_model(tmp_path: Path, architecture: str) -> None:
    folder = shared_path(f"models/tiny/{architecture}")
    (path,) = folder.glob("*.gguf")
    kernel = NumpyKernel()
    with open_model(path) as whole:
        model, experts = load_model(whole, kernel), LocalExperts.load(whole, kernel)
        cache = model.new_cache(len(PROMPT))
        expected = model.forward(PROMPT, cache, experts, logits=Logits.ALL)
    public = public_model(path, with_tokenizer=False)
    client = public.server.open_client
    opened = open_by_manifest(MANIFEST_URL, tmp_path, settings=FAST, open_client=client)
    fetcher = ExpertFetcher(public.manifest, FAST, open_client=client)
    with opened.model_file as base:
        fetched = LocalExperts(FetchedExperts(base, fetcher), kernel)
        model = load_model(base, kernel)
        cache = model.new_cache(len(PROMPT))
        found = model.forward(PROMPT, cache, fetched, logits=Logits.ALL)
    assert found.tobytes() == expected.tobytes()
    assert fetcher.count.n_shards > 0
    (held,) = tmp_path.glob("*.base")
    body = held.read_bytes()
    for entry in public.manifest.experts:
        for offset, n_bytes in entry.ranges:
            part = public.server.files[path.name][offset : offset + n_bytes]
            assert len(set(part)) == 1 or part not in body
