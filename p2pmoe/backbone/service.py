"""`p2pmoe serve` as one async function: from a model file to an API that answers.

    lock      the data folder is this process's alone, by its identity file
    listen    the API is there at once and tells the phase
    load      header, tokenizer, what a network must know of us (on a thread)
    join      the relay, market and ledger, if a network was named
    serve     until `stop` is set
    drain     no new requests, running ones get a moment, last vouchers are signed

Without a network everything is computed here: the single-process oracle. A start that
fails raises its error and leaves nothing running. Data of a run lies in one folder:
identity, measured use, spool.
"""

import functools
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
)
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import trio

from mobile_worker.clock import Clock
from mobile_worker.expert_id import ExpertId
from mobile_worker.session.identity import load_or_create
from mobile_worker.shards.manifest import Manifest
from p2pmoe.api.app import ApiParts
from p2pmoe.api.keys import ApiKeys
from p2pmoe.api.server import ListenAddress, serve_api
from p2pmoe.backbone.counters import BackboneCounters
from p2pmoe.backbone.engine import Engine, EngineParts, open_engine
from p2pmoe.backbone.generation import (
    FailureKind,
    GenerationFailed,
    GenerationRequest,
    GenerationRun,
    Readiness,
)
from p2pmoe.backbone.loading import Loaded, load_service
from p2pmoe.backbone.local_side import LocalSide
from p2pmoe.backbone.metrics import engine_page, local_page, network_page, path_page
from p2pmoe.backbone.readiness import ReadinessGate, with_damage
from p2pmoe.backbone.residency import Residency, keep_resident
from p2pmoe.backbone.scattered import Network, ScatteredExperts
from p2pmoe.backbone.speculation.making import draft_ground, speculation_maker
from p2pmoe.backbone.start_files import make_folder, open_configured_model
from p2pmoe.backbone.start_report import StartReport
from p2pmoe.backbone.trace import StepTrace
from p2pmoe.config import (
    DiskPolicy,
    MissingPolicy,
    NetworkAccess,
    ServeConfig,
    parse_listen,
)
from p2pmoe.errors import ConfigurationError
from p2pmoe.evaluate.configuration import configuration_page

if TYPE_CHECKING:
    from p2pmoe.api.served_model import ServedModel
    from p2pmoe.backbone.joining import Joined
    from p2pmoe.backbone.speculation.draft_file import DraftFile

__all__ = ["Service", "Started"]

log = logging.getLogger("p2pmoe.backbone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """Where the API listens."""

    host: str
    port: int


class Service:
    """One backbone process; see the module. `run` it once."""

    def __init__(
        self,
        config: ServeConfig,
        clock: Clock,
        told: Callable[[str, float], None] = lambda _, __: None,
    ) -> None:
        """Lock the data folder, and check what can be checked before anything runs.

        `told` hears how far fetching a model is that is named by its manifest.

        Raises:
            IdentityInUse: another process serves from this data folder.
            IdentityError: its identity file cannot be read or written.
            ConfigurationError: the data folder cannot be used.
            ModelFileError, ModelRefused: the model file is refused.
        """
        self.config = config
        self.counters = BackboneCounters()
        self._clock = clock
        self._told = told
        make_folder(config.data)
        self._identity = load_or_create(config.data / "identity")
        with ExitStack() as refused:
            refused.callback(self._identity.release)
            self._file = open_configured_model(config)
            refused.pop_all()
        self._gate = ReadinessGate(
            wanted=config.wait_coverage if config.access else 0.0,
            has_disk=config.disk is not DiskPolicy.OFF,
        )
        self._report = StartReport(
            in_network=config.access is not None,
            has_disk=config.disk is not DiskPolicy.OFF,
        )
        self._served: ServedModel | None = None
        self._local: LocalSide | None = None
        self._draft: DraftFile | None = None
        self._joined: Joined | None = None
        self._engine: Engine | None = None
        self._asked, self._answered = trio.Event(), trio.Event()

    def generate(
        self, request: GenerationRequest
    ) -> AbstractAsyncContextManager[GenerationRun]:
        """Hand a request to the engine; `GenerationFailed` while it is not ready."""
        state = self._gate.readiness()
        if self._engine is None or not state.takes_requests:
            raise GenerationFailed(
                FailureKind.NOT_READY, f"not ready: {state.detail or state.phase.value}"
            )
        return self._answer(self._engine, request)

    @asynccontextmanager
    async def _answer(
        self, engine: Engine, request: GenerationRequest
    ) -> AsyncIterator[GenerationRun]:
        self._asked.set()
        try:
            async with engine.generate(request) as run:
                yield run
        finally:
            self._answered.set()

    async def run(
        self,
        stop: trio.Event,
        *,
        task_status: trio.TaskStatus[Started] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until `stop` is set, then drain and give the data folder free."""
        host, port = parse_listen(self.config.listen)
        api_stop = trio.Event()
        async with AsyncExitStack() as stack:
            stack.callback(self._identity.release)
            nursery = await stack.enter_async_context(trio.open_nursery())
            address = await nursery.start(
                functools.partial(
                    serve_api,
                    self._api_parts(),
                    ListenAddress(host, port),
                    shutdown=api_stop.wait,
                )
            )
            task_status.started(Started(host=address.host, port=address.port))
            try:
                loaded = await self._loaded_unless(stop)
                if loaded is not None:
                    await self._serve(loaded, stop)
            finally:
                api_stop.set()

    async def _loaded_unless(self, stop: trio.Event) -> Loaded | None:
        """Load on a thread; None if `stop` comes first."""
        load = functools.partial(
            load_service,
            self._file,
            self.config,
            self._clock,
            self._gate.warming,
            self._told,
        )
        loaded: list[Loaded] = []
        async with trio.open_nursery() as nursery:

            async def give_up() -> None:
                await stop.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(give_up)
            loaded.append(await trio.to_thread.run_sync(load, abandon_on_cancel=True))
            nursery.cancel_scope.cancel()
        return loaded[0] if loaded else None

    # Serving.

    async def _serve(self, loaded: Loaded, stop: trio.Event) -> None:
        self._local, self._served = loaded.local, loaded.served
        self._draft = loaded.draft
        loaded.local.remote_times = self.counters.times
        try:
            async with AsyncExitStack() as stack:
                network = None
                if self.config.access is not None and loaded.manifest is not None:
                    network = await stack.enter_async_context(
                        self._network(self.config.access, loaded.manifest)
                    )
                self._engine = await stack.enter_async_context(
                    open_engine(self._engine_parts(loaded.local, network))
                )
                nursery = await stack.enter_async_context(trio.open_nursery())
                nursery.start_soon(keep_resident, loaded.local, self._residency())
                self._cover()
                await stop.wait()
                await self._drain()
                nursery.cancel_scope.cancel()
        finally:
            self._engine = None
            loaded.local.save()
            loaded.local.close()

    @asynccontextmanager
    async def _network(
        self, access: NetworkAccess, manifest: Manifest
    ) -> AsyncIterator[Network]:
        """Join the network and keep its side running."""
        from p2pmoe.backbone.network_start import (  # noqa: PLC0415 - see there
            NetworkStart,
            start_network,
        )

        start = NetworkStart(
            config=self.config,
            access=access,
            identity=self._identity,
            clock=self._clock,
            local=self._needed_local(),
            manifest=manifest,
            counters=self.counters,
            on_coverage=self._cover,
        )
        async with start_network(start) as attached:
            self._joined = attached.joined
            yield attached.network

    def _residency(self) -> Residency:
        return Residency(
            in_network=self.config.access is not None,
            asked=self._asked,
            answered=self._answered,
            only_here=lambda: self._only_here(self._needed_local()),
            interval_s=self.config.tuning.rebalance_interval_s,
        )

    def _only_here(self, local: LocalSide) -> frozenset[ExpertId]:
        """Return the experts at hand that nobody could compute once evicted."""
        if self._joined is None or self.config.disk is not DiskPolicy.OFF:
            return frozenset()
        return frozenset(local.hot.resident()) - self._joined.fleet.covered()

    async def _drain(self) -> None:
        """Let running requests end and the last vouchers be signed, within bounds."""
        self._gate.draining()
        drain_s = self.config.tuning.drain_s
        if self._engine is not None:
            with trio.move_on_after(drain_s):
                await self._engine.idle()
            self._engine.cancel_all()
        if self._joined is not None:
            settled = await self._joined.side.drain(drain_s)
            log.info("accounts are %s", "settled" if settled else "left in the spool")

    def _engine_parts(self, local: LocalSide, network: Network | None) -> EngineParts:
        tuning = self.config.tuning
        places = replace(local.places(network), overlap=tuning.overlap)
        joined, wish = self._joined, self.config.speculation
        ground = draft_ground(wish, local, places, self._draft)

        def cancel(step: StepTrace) -> None:
            if joined is not None:
                joined.dispatcher.cancel(step)

        return EngineParts(
            model=local.model,
            experts=functools.partial(
                ScatteredExperts, places, stand_ins=ground.stand_ins
            ),
            cancel=cancel,
            counters=self.counters,
            monotonic=self._clock.monotonic,
            n_lanes=local.options.n_lanes,
            max_batch=tuning.max_batch,
            kv_bytes=local.plan.kv,
            n_context=local.n_context,
            max_cold_experts=tuning.max_cold_experts,
            park_after_s=tuning.park_after_s,
            # Without a network nobody can come who holds what is lost here.
            missing=MissingPolicy.FAIL if network is None else self.config.missing,
            max_queued=tuning.max_queued_requests,
            deadline_s=tuning.request_deadline_s,
            chunk_tokens=tuning.prefill_chunk_tokens,
            speculation=speculation_maker(wish, ground),
            prefill_steps=local.options.n_chunks if tuning.overlap else 1,
        )

    # What others look at.

    def _cover(self) -> None:
        if self._engine is None or self._local is None:
            return
        hot = self._local.hot
        n_covered = n_experts = len(hot.sizes)
        if self._joined is not None:
            n_covered = self._joined.fleet.n_covered(hot.layers())
        share = n_covered / n_experts if n_experts else 1.0
        self._gate.cover(share, self._clock.monotonic())
        line = self._report.line(self._gate.readiness(), n_covered, n_experts)
        if line is not None:
            log.info("%s", line)

    def _readiness(self) -> Readiness:
        damage = "" if self._local is None else self._local.damage()
        has_others = self._joined is not None
        return with_damage(self._gate.readiness(), damage, has_others=has_others)

    def _needed_local(self) -> LocalSide:
        if self._local is None:
            raise ConfigurationError("the model is not loaded")
        return self._local

    def _api_parts(self) -> ApiParts:
        return ApiParts(
            generator=self,
            model=lambda: self._served,
            readiness=self._readiness,
            clock=self._clock,
            metrics=(self._metrics,),
            keys=ApiKeys.parse(key) if (key := self.config.api_key) else None,
        )

    def _metrics(self) -> str:
        pages = []
        if self._served is not None and self._served.configuration is not None:
            digest = str(self._served.configuration["digest"])
            pages.append(configuration_page(digest))
        if self._engine is not None:
            pages.append(engine_page(self._engine, self.counters))
        if self._local is not None:
            pages.append(local_page(self._local))
            pages.append(path_page(self._local.cost.times, self.counters.times))
        if self._joined is not None:
            pages.append(network_page(self._joined))
        return "".join(pages)
