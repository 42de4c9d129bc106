"""A backbone over a real model file, for tests: its local side, its engine, prompts."""

import atexit
import functools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

import trio

from ledger.spool import Spool
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.expert_id import ExpertId
from mobile_worker.links.node import NodeSettings
from mobile_worker.session.identity import Identity
from mobile_worker.shards.manifest import Manifest
from p2pmoe.backbone.attached import attach
from p2pmoe.backbone.counters import BackboneCounters
from p2pmoe.backbone.engine import Engine, EngineParts, EngineRun, open_engine
from p2pmoe.backbone.generation import GenerationRequest
from p2pmoe.backbone.joining import Joined, Joining
from p2pmoe.backbone.local_side import LocalOptions, LocalSide
from p2pmoe.backbone.places import ExpertPlaces
from p2pmoe.backbone.scattered import ScatteredExperts
from p2pmoe.config import DiskPolicy, Tuning
from p2pmoe.model.sampler import SamplingSettings
from p2pmoe.weights.expert_file import ExpertFile
from p2pmoe.weights.manifest import build_manifest
from p2pmoe.weights.model_file import ModelFile, open_model
from relay.tokens import Role
from tests.support.memory_worker import World

__all__ = [
    "POCKET",
    "Backbone",
    "generate",
    "local_backbone",
    "local_side",
    "manifest_of",
    "model_of",
    "scattered_backbone",
    "shards_of",
]

POCKET = Path(__file__).resolve().parents[2] / "p2pmoe/models/pocket-q4_0.gguf"


_FOLDERS = TemporaryDirectory(prefix="p2pmoe-tests-")
atexit.register(_FOLDERS.cleanup)


@functools.cache
def model_of(path: Path) -> ModelFile:
    """Return an open model file, opened once per test run."""
    return open_model(path)


@functools.cache
def manifest_of(path: Path) -> Manifest:
    """Return the manifest of a model file, built once per test run."""
    return build_manifest(model_of(path))


def local_side(
    path: Path,
    *,
    hot_share: float = 1.0,
    policy: DiskPolicy = DiskPolicy.FALLBACK,
    profile: Profile = Profile.R16,
    **options: object,
) -> LocalSide:
    """Return a local side, all read, whose hot set holds this share of the experts."""
    data = Path(mkdtemp(dir=_FOLDERS.name))
    chosen = LocalOptions(data=data, policy=policy, profile=profile, **options)
    side = LocalSide(model_of(path), chosen)
    side.hot.budget_bytes = int(hot_share * sum(side.hot.sizes.values()))
    side.read_base()
    side.hot.fill(side.use.decayed())
    return side


def shards_of(path: Path, experts: set[ExpertId]) -> dict[ExpertId, bytes]:
    """Return the bytes of some experts of a model file."""
    source = ExpertFile(model_of(path))
    return {expert: source.shard(expert) for expert in experts}


class Backbone:
    """An engine and what stands behind it."""

    def __init__(
        self,
        engine: Engine,
        local: LocalSide,
        counters: BackboneCounters,
        joined: Joined | None,
        places: ExpertPlaces,
    ) -> None:
        """Hold the parts together."""
        self.places = places
        self.engine = engine
        self.local = local
        self.counters = counters
        self._joined = joined
        self._changed: list[trio.Event] = []

    def note_change(self) -> None:
        """Hear that coverage may have changed."""
        for event in self._changed:
            event.set()
        self._changed.clear()

    async def covers(self, experts: set[ExpertId]) -> None:
        """Wait until all of these have a live holder."""
        with trio.fail_after(60):
            while not experts <= self.joined.fleet.covered():
                self._changed.append(trio.Event())
                await self._changed[-1].wait()

    @property
    def joined(self) -> Joined:
        """The network side; only of a scattered backbone."""
        if self._joined is None:
            raise LookupError("this backbone is all local")
        return self._joined


@asynccontextmanager
async def local_backbone(local: LocalSide, **parts: object) -> AsyncIterator[Backbone]:
    """Run an engine with nothing but the local side: the single-process oracle."""
    counters = BackboneCounters()
    places = local.places()
    async with open_engine(
        EngineParts(
            model=local.model,
            experts=functools.partial(ScatteredExperts, places),
            cancel=lambda step: None,
            counters=counters,
            monotonic=time.monotonic,
            **parts,
        )
    ) as engine:
        yield Backbone(engine, local, counters, None, places)


@asynccontextmanager
async def scattered_backbone(
    world: World,
    local: LocalSide,
    *,
    tuning: Tuning | None = None,
    last_placement: Path | None = None,
    **parts: object,
) -> AsyncIterator[Backbone]:
    """Run an engine and its network side as a peer of `world`."""
    identity = Identity.generate()
    counters = BackboneCounters()
    settings = NodeSettings(identity=identity, role=Role.BACKBONE)
    backbones: list[Backbone] = []
    with Spool(world.folder / f"backbone-{identity.peer_id.hex()[:8]}") as spool:
        async with world.network.open_node(settings) as node:
            joining = Joining(
                node=node,
                sign=identity.sign,
                clock=world.clock,
                local=local,
                manifest=world.manifest,
                spool=spool,
                counters=counters,
                tuning=tuning or Tuning(),
                on_coverage=lambda: [b.note_change() for b in backbones],
                last_placement=last_placement,
            )
            async with attach(joining) as attached:
                joined, places = attached.joined, local.places(attached.network)
                engine_parts = EngineParts(
                    model=local.model,
                    experts=functools.partial(ScatteredExperts, places),
                    cancel=joined.dispatcher.cancel,
                    counters=counters,
                    monotonic=time.monotonic,
                    **{"n_lanes": 2, "missing": local.options.missing} | parts,
                )
                async with open_engine(engine_parts) as engine:
                    backbones.append(Backbone(engine, local, counters, joined, places))
                    yield backbones[0]


async def generate(
    backbone: Backbone,
    prompt: tuple[int, ...],
    n: int,
    *,
    sampling: SamplingSettings | None = None,
    on_token: Callable[[int], object] = lambda _: None,
) -> tuple[list[int], EngineRun]:
    """Return n tokens and the finished run; `on_token` hears how many there are."""
    request = GenerationRequest(
        prompt_ids=prompt,
        sampling=sampling or SamplingSettings(temperature=0.0),
        max_tokens=n,
    )
    tokens: list[int] = []
    async with backbone.engine.generate(request) as run:
        async for step in run:
            tokens += step.tokens
            on_token(len(tokens))
    return tokens, run
