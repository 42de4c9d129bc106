"""200 prompts give the same tokens wherever experts are, whoever drafts: one hash.

Three placements (all experts in memory; the colder half on the disk; the colder half
with workers), speculation off and on, greedy and sampled, in profile r16.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from p2pmoe.backbone.generation import GenerationRequest
from p2pmoe.backbone.speculation.drafts import DraftSource
from p2pmoe.model.sampler import SamplingSettings
from tests.integration.test_batch_invariance import text_ids
from tests.integration.test_speculation import halves, maker, run_all, run_on
from tests.support.backbone_model import POCKET, local_side
from tests.support.lanes import a_request
from tests.support.trio_test import trio_test

N_PROMPTS, N_TOKENS, N_DRAFTS = 200, 8, 6


def requests_of(n: int, *, sampled: bool) -> list[GenerationRequest]:
    """Return requests with prompts from a text that the model has not seen."""
    ids, found = text_ids(), []
    for i in range(n):
        first, length = 977 * i % (len(ids) - 64), 4 + 7 * i % 29
        sampling = SamplingSettings(temperature=0.0)
        if sampled:
            sampling = SamplingSettings(temperature=0.8, top_p=0.95, seed=i)
        found.append(
            a_request(ids[first : first + length], N_TOKENS, sampling=sampling)
        )
    return found


def hash_of(tokens: Sequence[Sequence[int]]) -> str:
    """Return one hash of all answers, each with its length."""
    digest = hashlib.sha256()
    for own in tokens:
        digest.update(len(own).to_bytes(4, "little"))
        digest.update(b"".join(token.to_bytes(4, "little") for token in own))
    return digest.hexdigest()


def hashes_in_one_process(requests: Sequence[GenerationRequest]) -> dict[str, str]:
    """Return the hash of each placement without workers, drafting and not."""
    found = {}
    for where, share in (("memory", 1.0), ("disk", 0.5)):
        side = local_side(POCKET, hot_share=share)
        found[f"{where}, off"] = hash_of(run_all(side, requests))
        sources = (DraftSource.SELF, DraftSource.NGRAM)
        source = sources[share == 1.0]
        drafting = maker(side, source, N_DRAFTS, made := [])
        found[f"{where}, {source}"] = hash_of(run_all(side, requests, drafting))
        assert sum(own.counts.n_drafted[source] for own in made) > 0
    return found


async def hashes_with_workers(
    folder: Path, requests: Sequence[GenerationRequest]
) -> dict[str, str]:
    """Return the hashes with half of the experts at workers, drafting and not."""
    found = {}
    for n in (0, N_DRAFTS):
        (folder / str(n)).mkdir()
        async with halves(folder / str(n), [], n) as (backbone, _):
            tokens, runs = await run_on(backbone, requests)
        found[f"workers, {n} drafts"] = hash_of(tokens)
        drafted = sum(run.end().usage.drafted_tokens for run in runs)
        assert (drafted > 0) == (n > 0)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("sampled", [False, True])
@trio_test
async def test_one_hash_of_200_prompts(tmp_path: Path, sampled: bool) -> None:
    requests = requests_of(N_PROMPTS, sampled=sampled)
    found = hashes_in_one_process(requests)
    found |= await hashes_with_workers(tmp_path, requests)
    assert len(found) == 6
    assert len(set(found.values())) == 1, found
