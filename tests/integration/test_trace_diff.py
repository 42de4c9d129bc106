"""A planted fault of one bit is named at its layer and expert: in weights, in a result.

Runs of the pocket model with `traces`, kept as `p2pmoe run --trace` keeps them.
"""

import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from mobile_worker.arithmetic.coding import ExpertInput
from mobile_worker.arithmetic.kernel import KernelCall
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.expert_id import ExpertId
from p2pmoe.api.app import ApiParts
from p2pmoe.api.served_model import ServedModel
from p2pmoe.backbone import cost
from p2pmoe.backbone.generation import GenerationRequest, Phase, Readiness, TracedHash
from p2pmoe.cli.main import build_app
from p2pmoe.config import Tuning
from p2pmoe.model.sampler import SamplingSettings
from p2pmoe.text.tokenizer import load_tokenizer
from p2pmoe.trace.diff import TraceReport, compare_traces
from p2pmoe.trace.format import Configured, Given, PositionHashes, read_trace
from p2pmoe.trace.recording import TraceRecorder
from p2pmoe.weights.expert_file import ExpertFile
from tests.support.api import FixedClock, call, served
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
async def test_a_bit_of_one_result_of_a_worker_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The one wrong result is taken, however long a busy machine takes over it.
    monkeypatch.setattr(cost, "DEADLINE_CEILING_S", 60.0)
    monkeypatch.setattr(cost, "DEADLINE_FLOOR_S", 60.0)
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


class Asking:
    """`p2pmoe run` and `trace diff` against a real API, run in a thread."""

    def __init__(self, path: Path, url: str) -> None:
        self.path = path
        self.url = url

    async def run(self, name: str) -> Result:
        trace = str(self.path / name)
        words = ["run", "It was a dark", "--url", self.url, "--max-tokens", "6"]
        return await call(partial(invoke, [*words, "--explain", "--trace", trace]))

    async def diff(self, one: str, other: str) -> Result:
        names = [str(self.path / name) for name in (one, other)]
        return await call(partial(invoke, ["trace", "diff", *names]))


def invoke(words: list[str]) -> Result:
    return CliRunner().invoke(build_app(), words)


@asynccontextmanager
async def asking(folder: Path, model: Path) -> AsyncIterator[Asking]:
    async with local_backbone(local_side(model)) as backbone:
        served_model = ServedModel(
            name="pocket",
            n_context=256,
            tokenizer=load_tokenizer(model_of(model)),
            template=None,
            created_s=0,
            configuration={"weights": model.name},
        )
        parts = ApiParts(
            generator=backbone.engine,
            model=lambda: served_model,
            readiness=lambda: Readiness(phase=Phase.READY, covered=1.0),
            clock=FixedClock(),
        )
        async with served(parts) as client:
            yield Asking(folder, str(client.base_url))


@trio_test
async def test_the_commands_find_it_over_the_api(tmp_path: Path) -> None:
    async with asking(tmp_path, POCKET) as clean:
        first = await clean.run("a")
        assert first.exit_code == 0, first.stderr
        rows = [line.split("\t") for line in first.stderr.splitlines()]
        assert [row[0] for row in rows[:8]] == [
            "step",
            "prompt",
            *map(str, range(2, 7)),
            "total",
        ]
        text = first.stdout.removesuffix("\n").replace("\n", r"\n")
        assert "".join(row[1] for row in rows[1:7]) == text
        assert rows[3][2] == "28"  # 7 layers, 4 experts, all from memory
        await clean.run("b")
        equal = await clean.diff("a", "b")
        assert equal.exit_code == 0
        assert equal.stdout.startswith("the runs are equal: ")
    with (tmp_path / "a").open("rb") as stream:
        positions = [r for r in read_trace(stream) if isinstance(r, PositionHashes)]
    late = [h for p in positions[-3:] for h in p.hashes if h.layer >= 4]
    expert = next(ExpertId(h.layer, h.expert) for h in late if h.expert >= 0)
    flipped = with_one_bit_flipped(tmp_path / "flipped.gguf", expert)
    async with asking(tmp_path, flipped) as faulty:
        await faulty.run("c")
        told = await faulty.diff("a", "c")
    assert told.exit_code == 1
    variable, place = told.stdout.splitlines()[1:]
    assert variable == "configuration: weights\tpocket-q4_0.gguf\tflipped.gguf"
    assert f"layer {expert.layer}, expert {expert.index}\t" in place
