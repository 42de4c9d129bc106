"""What of a model is on this machine: weights, memory, hot set, disk, measured use.

Opened on a worker thread; afterwards decode threads share it. Opening reads the header
and the vectors: matrices are read when they are first computed with, and experts when
they are first called, or by `fill` in the background. What must be done before requests
are taken is `warm_up`. Measured use lies in the data folder between runs, named by the
model's fingerprint.
"""

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from mobile_worker.arithmetic.candidates import kernel_candidates
from mobile_worker.arithmetic.select import KernelChoice, choose_kernel
from mobile_worker.expert_id import ExpertId
from mobile_worker.large_pages import keep_warm
from p2pmoe.backbone.budget import (
    MemoryPlan,
    ModelSizes,
    measure_sizes,
    plan_memory,
)
from p2pmoe.backbone.cost import LocalCost
from p2pmoe.backbone.disk import DiskTier
from p2pmoe.backbone.disk_experts import DiskExperts  # noqa: TC001 - asked for here
from p2pmoe.backbone.experts_at_hand import HotSet
from p2pmoe.backbone.foresight import Foresight, routes_of
from p2pmoe.backbone.free_memory import free_memory, resident_bytes
from p2pmoe.backbone.local_options import LocalOptions
from p2pmoe.backbone.path_times import PathTimes  # noqa: TC001 - a field's type
from p2pmoe.backbone.placement import PassShape, Placement
from p2pmoe.backbone.prefetch.opening import open_prefetch
from p2pmoe.backbone.prefetch.prefetch import Prefetch  # noqa: TC001 - a field's type
from p2pmoe.backbone.scattered import ExpertPlaces, Network, ScatteredExperts
from p2pmoe.backbone.trace import RequestTrace, StepTrace
from p2pmoe.backbone.use import Counts, UseCounts, load_use, save_use
from p2pmoe.backbone.warm_up import measure_use
from p2pmoe.config import DiskAccess, DiskPolicy
from p2pmoe.errors import ConfigurationError
from p2pmoe.model.model import Model, describe_model, load_model
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.expert_file import ExpertFile
from p2pmoe.weights.look_through import look_through
from p2pmoe.weights.model_file import ModelFile

__all__ = ["LocalOptions", "LocalSide"]

log = logging.getLogger("p2pmoe.backbone")

WARM_UP_S = 10.0
SMALL_BYTES = 32 << 20  # a model to be read whole before anything is asked
_UNAIMED_SHARE = 16  # of memory for experts, in a network, keeps what calls read
MEASURED_TOKENS = 128  # whose use of experts says which are hot


class LocalSide:
    """A loaded model and the experts that are at hand."""

    def __init__(self, model_file: ModelFile, options: LocalOptions) -> None:
        """Check all that the header tells, and divide the budget.

        Raises:
            RamTooSmall: the budget cannot hold what must be there.
            ConfigurationError: a context beyond the model's own.
            KernelUnavailable: the kernel asked for is not there.
            ModelRefused, ModelFileError, FormatUnsupported: see `load_model`.
        """
        self.before_bytes = resident_bytes()  # what this process took without a model
        self.options = options
        self.model_file = model_file
        description = describe_model(model_file)
        self.n_context = options.n_context or description.n_context
        if self.n_context > description.n_context:
            raise _beyond(self.n_context, description.n_context)
        self.chosen = _choose(options)
        sizes = measure_sizes(model_file, description)
        wish = options.wish(self.chosen.keeps, self.n_context)
        self.plan: MemoryPlan = plan_memory(sizes, wish)
        model_file.past_cache = self._is_short(sizes)
        keep_warm(self.plan.disk)
        self.kernel = self.chosen.open(self.plan.decoded)
        self.model: Model = load_model(model_file, self.kernel)
        self.experts = ExpertFile(model_file)
        for layer in description.moe_layers:
            self.experts.kinds(layer)  # refuses what cannot be computed with
        self.cost = LocalCost()
        self.use = UseCounts(
            description.n_layer, description.n_expert, len(description.moe_layers)
        )
        room = self.plan.hot
        aimed = None if room is None else room - room // _UNAIMED_SHARE
        self.hot = HotSet(
            sizes.experts,
            room,
            self.experts.weights,
            aimed_bytes=aimed,
            next_use=self.use.next_use,
        )
        shape = PassShape(top_k=description.top_k)
        self.placement = Placement(sizes.experts, aimed or 0, shape)
        self.disk: DiskExperts = self._open_disk()
        self.prefetch: Prefetch | None = None
        self.remote_times: PathTimes | None = None  # of calls, once there is a network
        self._in_network = False
        self._recalled = False
        self._unreadable = False  # the model file was found cut short
        self._told: int | None = None  # experts at hand, as last logged
        self._stamp = model_file.stamp()
        name = model_file.fingerprint().hex()[:16]
        self._use_file = options.data / f"use-{name}.bin"

    def _open_disk(self) -> "DiskExperts":
        if self.options.disk_access is DiskAccess.MMAP:
            from p2pmoe.backbone.mapped.mapped_experts import (  # noqa: PLC0415 - rare
                map_experts,
            )

            return map_experts(
                self.model_file,
                self.experts,
                kernel=self.chosen.name,
                n_threads=self.options.n_threads,
                cost=self.cost,
            )
        return DiskTier(
            self.experts,
            self.hot,
            window_bytes=self.plan.window,
            cost=self.cost,
            foresight=Foresight(routes_of(self.model)),
        )

    def close(self) -> None:
        """End what computes beside this process."""
        self.disk.close()

    def _is_short(self, sizes: ModelSizes) -> bool:
        """Whether the system has no memory for a copy of what is not kept here."""
        hot = self.plan.hot
        if hot is None:
            return False
        free = free_memory()
        planned = sum(self.plan.items().values())
        absent = sum(sizes.experts.values()) - hot
        return free is not None and 0 < absent > free - planned

    def places(self, network: Network | None = None) -> ExpertPlaces:
        """Return everything that can compute an expert."""
        places = ExpertPlaces(
            kernel=self.kernel,
            profile=self.options.profile,
            n_embd=self.model.description.n_embd,
            file=self.experts,
            hot=self.hot,
            disk=self.disk,
            policy=self.options.policy,
            cost=self.cost,
            use=self.use,
            network=network,
            missing=self.options.missing,
            drop_bound=self.options.drop_bound,
        )
        ahead = self.plan.ahead
        self.prefetch = open_prefetch(places, ahead, lambda: self.remote_times)
        return replace(places, prefetch=self.prefetch)

    @property
    def _aims(self) -> bool:
        """Whether what is in memory is chosen, and not what was called.

        It is a promise in a network, and a child that maps hands no expert over.
        """
        is_mapped = self.options.disk_access is DiskAccess.MMAP
        return self._in_network or is_mapped or self.hot.holds_all

    def _worth(self) -> Counts:
        """Return what keeping each expert is worth; to save trips where there are."""
        use = self.use.decayed()
        by_trips = self._in_network and self.options.policy is not DiskPolicy.TIER
        if by_trips and self.use.is_measured and not self.hot.holds_all:
            self.placement.settle(use)
        return self.placement.worth(use)

    @property
    def is_small(self) -> bool:
        """Whether all that will be resident is little enough to be read at once."""
        return self.plan.base + self.hot.budget_bytes <= SMALL_BYTES

    @property
    def knows_use(self) -> bool:
        """Whether it is known which experts are hot: all fit, or use was measured."""
        return self.hot.holds_all or self._has_measured_use

    @property
    def _has_measured_use(self) -> bool:
        """Whether use was measured in an earlier run, or of enough tokens in this."""
        description = self.model.description
        n_calls = description.top_k * len(description.moe_layers)
        n_measured = float(self.use.decayed().sum())
        return self._recalled or n_measured >= MEASURED_TOKENS * n_calls

    def warm_up(
        self,
        tokens: Sequence[int],
        *,
        in_network: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Do what must be done before requests are taken; ModelFileError.

        Recorded use is recalled. A small model is read and checked whole. In a network,
        which must know what is at hand here, the dense part is read, use is measured
        with `tokens` if it is not known, and the hot set is chosen; without a disk tier
        it is read as well.
        """
        self._recall_use()
        self._in_network = in_network
        if in_network:
            self.read_base()
            if not self.knows_use:
                self._measure(tokens, monotonic)
        if in_network or self.hot.holds_all or (self._aims and self._recalled):
            self.hot.aim(self._worth())
        if self.is_small:
            self.look_through()
        needs_all_now = in_network and self.options.policy is DiskPolicy.OFF
        if needs_all_now or (self.is_small and self.knows_use):
            self.fill()

    def _recall_use(self) -> None:
        description = self.model.description
        known = load_use(self._use_file, description.n_layer, description.n_expert)
        if known is not None:
            self.use.restore(known)
            self._recalled = True

    def read_base(self) -> None:
        """Have all matrices but the routed experts in memory; ModelFileError."""
        for promise in self.model_file.unread():
            promise.read()

    def look_through(self, go_on: Callable[[], bool] = lambda: True) -> bool:
        """Look for damage in what will be resident, keeping nothing of it.

        Goes on while `go_on()`; False if it was told to stop. Raises ModelFileError.
        """
        left = self.hot.budget_bytes
        wanted: list[ExpertId] = []
        for expert in self.hot.at_hand() or self.hot.sizes:
            left -= self.hot.sizes[expert]
            if left < 0:
                break
            wanted.append(expert)
        return look_through(self.model_file, self.experts, wanted, go_on)

    def fill(self, go_on: Callable[[], bool] = lambda: True) -> None:
        """Read experts into memory, the most used first, while `go_on()`.

        In a network, and beside a mapped file, what is in memory is settled by that;
        else it only fills room, and goes on by what is called. ModelFileError.
        """
        if self._aims:
            self.hot.fill(self._worth(), go_on)
        else:
            self.hot.warm(self.use.decayed(), go_on)
        n_resident = len(self.hot.resident())
        if n_resident != self._told:
            self._told = n_resident
            log.info(
                "%d of %d experts are in memory here, %.1f MiB",
                n_resident,
                len(self.hot.sizes),
                self.hot.n_bytes / (1 << 20),
            )

    def fill_behind(self, go_on: Callable[[], bool]) -> None:
        """Fill while requests run: what cannot be read is logged, not raised."""
        try:
            self.fill(go_on)
        except ModelFileError as error:
            log.warning("the hot set stays as it is from now on: %s", error)
            self._unreadable = True

    def damage(self) -> str:
        """Say what can no longer be read of the model; nothing if all is well or here.

        A file that was written to since it was opened, or experts that could not be
        read when they were called, and are not in memory. Clients read it: no paths.
        """
        resident = set(self.hot.resident())
        lost = set(self.disk.lost) - resident
        if self.model_file.stamp() == self._stamp:
            n = len(self.hot.sizes)
            return f"the model file has lost {len(lost)} of {n} experts" if lost else ""
        if len(resident) == len(self.hot.sizes) and not self.model_file.unread():
            return ""
        return "the model file was written to since it was opened"

    def _measure(self, tokens: Sequence[int], monotonic: Callable[[], float]) -> None:
        """Run a short text from the local disk to see which experts it uses."""
        step = StepTrace.of(RequestTrace())
        experts = ScatteredExperts(self.places(), step, float("inf"))
        n = measure_use(
            self.model, experts, tokens, monotonic=monotonic, limit_s=WARM_UP_S
        )
        log.info("measured over %d tokens which experts are used most", n)

    def _pays(self, uses: float) -> bool:
        """Whether having an expert in memory pays for the read; from a disk always."""
        return uses >= 0

    def rebalance(self, keep: Collection[ExpertId] = ()) -> bool:
        """Follow measured use with the few moves worth their reads; True if made.

        Experts in `keep` stay, whatever their use. Not where each call for an expert
        that is not in memory reads it: there memory follows use by itself.
        A model file that was cut short is logged, not raised, and ends rebalancing:
        what is resident goes on serving.
        """
        if not self._aims:
            return False
        moves = self.hot.plan(self._worth(), keep, self._pays)
        if self._unreadable or not (moves.load or moves.evict):
            return False
        try:
            self.hot.apply(moves)
        except ModelFileError as error:
            log.warning("the hot set stays as it is from now on: %s", error)
            self._unreadable = True
            return False
        n_in, n_out = len(moves.load), len(moves.evict)
        log.info("use has changed: %d experts into memory, %d out of it", n_in, n_out)
        return True

    def save(self) -> None:
        """Keep measured use for the next start; a full disk is logged, not raised."""
        if self.use.is_measured:
            try:
                save_use(self._use_file, self.use.decayed())
            except OSError as error:
                log.warning("cannot keep measured use: %s", error)

    def all_experts(self) -> frozenset[ExpertId]:
        """Return every routed expert of the model."""
        return frozenset(self.hot.sizes)


def _beyond(n_context: int, most: int) -> ConfigurationError:
    return ConfigurationError(
        f"--context {n_context} is beyond the model's {most} positions"
    )


def _choose(options: LocalOptions) -> KernelChoice:
    """Choose the kernel, and say so."""
    candidates = kernel_candidates(options.n_threads)
    chosen = choose_kernel(candidates, options.kernel)
    log.info("%s", chosen.line)
    for warning in chosen.warnings:
        log.warning("%s", warning)
    return chosen
