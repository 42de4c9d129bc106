"""A planted fault of one bit is named at its layer and expert: in weights, in a result.

Runs of the pocket model with `traces`, kept as `p2pmoe run --trace` keeps them.
"""

import shutil
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from mobile_worker.arithmetic.coding import ExpertInput
from mobile_worker.arithmetic.kernel import KernelCall
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.generation import GenerationRequest, TracedHash
from p2pmoe.config import Tuning
from p2pmoe.model.sampler import SamplingSettings
from p2pmoe.trace.diff import TraceReport, compare_traces
from p2pmoe.trace.format import Configured, Given, read_trace
from p2pmoe.trace.recording import TraceRecorder
from p2pmoe.weights.expert_file import ExpertFile
from tests.support.backbone_model import (
    POCKET,
    Backbone,
    local_backbone,
    local_side,
    manifest_of,
    model_of,
    scattered_backbone,
    shards_of,
)
from tests.support.memory_worker import World
from tests.support.trio_test import trio_test

PROMPT = tuple(range(5, 25))
N_TOKENS = 8
NO_CHECKS = Tuning(spot_check_rate=0.0, newcomer_spot_check_rate=0.0, first_passes=0)


async def traced(backbone: Backbone) -> tuple[list[str], list[TracedHash]]:
    """Return the lines of a run's trace, and its hashes."""
    request = GenerationRequest(
        prompt_ids=PROMPT,
        sampling=SamplingSettings(temperature=0.0),
        max_tokens=N_TOKENS,
        traces=True,
    )
    lines: list[str] = []
    hashes: list[TracedHash] = []
    tokens: list[int] = []
    recorder = TraceRecorder(lines.append, "test")
    recorder.begin(Given({"prompt": str(PROMPT)}), Configured({}))
    async with backbone.engine.generate(request) as run:
        async for step in run:
            hashes += step.hashes
            tokens += step.tokens
            told = [
                [h.position, h.layer, h.expert, h.digest.hex()] for h in step.hashes
            ]
            recorder.watch({"hashes": told})
    recorder.end("length", str(tokens))
    return lines, hashes


async def clean_run() -> tuple[list[str], list[TracedHash]]:
    async with local_backbone(local_side(POCKET)) as backbone:
        return await traced(backbone)


def diff(one: list[str], other: list[str]) -> TraceReport:
    return compare_traces(
        read_trace(line.encode() for line in one),
        read_trace(line.encode() for line in other),
    )


def first_use(hashes: list[TracedHash], after: int) -> TracedHash:
    """Return a call in a late layer, of an expert not used before position `after`."""
    late = [h for h in hashes if h.layer >= 4 and h.expert is not None]
    early = {(h.layer, h.expert) for h in late if h.position < after}
    fresh = [h for h in late if (h.layer, h.expert) not in early]
    return min(fresh, key=lambda h: (h.position, h.layer, h.expert))


def with_one_bit_flipped(path: Path, expert: ExpertId) -> Path:
    """Copy the pocket model; the copy's expert has one weight with a bit flipped."""
    shutil.copyfile(POCKET, path)
    raw = bytearray(path.read_bytes())
    shard = ExpertFile(model_of(POCKET)).shard(expert)
    at = raw.find(shard[:4096])
    assert at > 0
    raw[at + 2 + 5] ^= 0x80  # behind the first block's scale: a weight of the gate
    path.write_bytes(raw)
    return path


@trio_test
async def test_a_trace_covers_every_position_that_was_computed() -> None:
    lines, hashes = await clean_run()
    layers = local_side(POCKET).model.description.moe_layers
    positions = range(len(PROMPT) + N_TOKENS - 1)
    assert len(hashes) == len(positions) * len(layers) * (1 + 4)
    assert {h.position for h in hashes} == set(positions)
    places = [
        (h.position, h.layer, -1 if h.expert is None else h.expert) for h in hashes
    ]
    assert places == sorted(places)
    report = diff(lines, (await clean_run())[0])
    assert report.is_equal
    assert report.n_hashes == len(hashes)


@trio_test
async def test_a_bit_of_an_experts_weights_is_named(tmp_path: Path) -> None:
    lines, hashes = await clean_run()
    guilty = first_use(hashes, after=10)
    expert = ExpertId(guilty.layer, guilty.expert)
    path = with_one_bit_flipped(tmp_path / "flipped.gguf", expert)
    async with local_backbone(local_side(path)) as backbone:
        place = diff(lines, (await traced(backbone))[0]).place
    assert place is not None
    assert ExpertId(place.layer, place.expert) == expert
    assert place.position >= guilty.position  # the first row that the bit matters to


class OneBitOnce(NumpyKernel):
    """Flips one bit of the first result that it ever gives."""

    def experts(
        self, calls: Sequence[KernelCall], rows: ExpertInput, profile: Profile
    ) -> list[bytes]:
        results = super().experts(calls, rows, profile)
        if not self.is_done:
            self.is_done = True
            results[0] = bytes([results[0][0] ^ 1]) + results[0][1:]
        return results

    is_done = False


@trio_test
async def test_a_bit_of_one_result_of_a_worker_is_named(tmp_path: Path) -> None:
    lines, hashes = await clean_run()
    side = local_side(POCKET, hot_share=0.3)
    away = set(side.all_experts()) - set(side.hot.resident())
    called = [h for h in hashes if h.expert is not None and h.layer >= 4]
    guilty = next(h for h in called if ExpertId(h.layer, h.expert) in away)
    lied_about = {ExpertId(guilty.layer, guilty.expert)}
    world = World(manifest_of(POCKET), tmp_path)
    world.ledger.float_leaves = 1 << 16
    async with world.services(), AsyncExitStack() as stack:
        hands = ((NumpyKernel(), away - lied_about), (OneBitOnce(), lied_about))
        for kernel, hand in hands:
            worker = world.worker(kernel, shards_of(POCKET, hand))
            await stack.enter_async_context(worker)
        async with scattered_backbone(world, side, tuning=NO_CHECKS) as backbone:
            await backbone.covers(away)
            place = diff(lines, (await traced(backbone))[0]).place
            assert place is not None
            assert {ExpertId(place.layer, place.expert)} == lied_about
            assert place.position == guilty.position
            again = diff(lines, (await traced(backbone))[0])
            assert again.is_equal  # it lied once; where experts ran changes no hash
