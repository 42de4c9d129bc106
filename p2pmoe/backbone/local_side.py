"""What of a model is on this machine: weights, memory, hot set, disk, measured use.

Opened on a worker thread (it reads and computes for seconds); afterwards decode threads
share it. Measured use lies in the data folder between runs, named by the model file's
own bytes; a first start measures it with a short pass over the local disk.
"""

import hashlib
import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from mobile_worker.arithmetic.candidates import kernel_candidates
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.arithmetic.select import KernelChoice, choose_kernel
from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.budget import MemoryPlan, measure_sizes, plan_memory
from p2pmoe.backbone.cost import LocalCost
from p2pmoe.backbone.disk import DiskTier, ExpertFile
from p2pmoe.backbone.experts_at_hand import HotSet
from p2pmoe.backbone.scattered import ExpertPlaces, Network, ScatteredExperts
from p2pmoe.backbone.trace import RequestTrace
from p2pmoe.backbone.use import UseCounts, load_use, save_use
from p2pmoe.backbone.warm_up import measure_use
from p2pmoe.config import DiskPolicy
from p2pmoe.errors import ConfigurationError
from p2pmoe.model.model import Model, describe_model, load_model
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.model_file import ModelFile

__all__ = ["LocalOptions", "LocalSide"]

log = logging.getLogger("p2pmoe.backbone")

WARM_UP_S = 10.0
_NAME_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOptions:
    """How much of the machine to use; `n_context` 0 means the model's own.

    `kernel` names the one to compute with, None the best here; `n_threads` share an
    expert call.
    """

    data: Path
    ram_bytes: int | None = None
    n_lanes: int = 2
    n_context: int = 0
    profile: Profile = Profile.R16
    policy: DiskPolicy = DiskPolicy.FALLBACK
    kernel: str | None = None
    n_threads: int = 1


class LocalSide:
    """A loaded model and the experts that are at hand."""

    def __init__(self, model_file: ModelFile, options: LocalOptions) -> None:
        """Load all but the routed experts, within the budget.

        Raises:
            RamTooSmall: the budget cannot hold what must be there.
            ConfigurationError: a context beyond the model's own.
            KernelUnavailable: the kernel asked for is not there.
            ModelRefused, ModelFileError, FormatUnsupported: see `load_model`.
        """
        self.options = options
        self.model_file = model_file
        description = describe_model(model_file)
        self.n_context = options.n_context or description.n_context
        if self.n_context > description.n_context:
            raise ConfigurationError(
                f"--context {self.n_context} is beyond the model's "
                f"{description.n_context} positions"
            )
        self.chosen = _choose(options)
        sizes = measure_sizes(model_file, description)
        self.plan: MemoryPlan = plan_memory(
            sizes,
            ram_bytes=options.ram_bytes,
            n_lanes=options.n_lanes,
            n_context=self.n_context,
            keeps=self.chosen.keeps,
        )
        self.kernel = self.chosen.open(self.plan.decoded)
        self.model: Model = load_model(model_file, self.kernel)
        self.experts = ExpertFile(model_file)
        self.cost = LocalCost()
        self.hot = HotSet(sizes.experts, self.plan.hot, self.experts.weights)
        self.disk = DiskTier(self.experts, max_bytes=self.plan.disk, cost=self.cost)
        self.use = UseCounts(
            description.n_layer, description.n_expert, len(description.moe_layers)
        )
        self._unreadable = False  # the model file was found cut short
        self._use_file = options.data / f"use-{_name_of(model_file)}.bin"

    def places(self, network: Network | None = None) -> ExpertPlaces:
        """Return everything that can compute an expert."""
        return ExpertPlaces(
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
        )

    def warm_up(
        self,
        tokens: Sequence[int],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Recall or measure use, then read the hot set; ModelFileError."""
        description = self.model.description
        known = load_use(self._use_file, description.n_layer, description.n_expert)
        if known is not None:
            self.use.restore(known)
        elif self.hot.budget_bytes < sum(self.hot.sizes.values()):
            experts = ScatteredExperts(self.places(), RequestTrace(), float("inf"))
            n = measure_use(
                self.model,
                experts,
                tokens,
                monotonic=monotonic,
                limit_s=WARM_UP_S,
            )
            log.info("measured over %d tokens which experts are used most", n)
        self.hot.fill(self.use.decayed())
        log.info(
            "%d of %d experts are in memory here, %.1f MiB",
            len(self.hot.resident()),
            len(self.hot.sizes),
            self.hot.n_bytes / (1 << 20),
        )

    def rebalance(self, keep: Collection[ExpertId] = ()) -> bool:
        """Follow measured use with the few moves worth their reads; True if made.

        Experts in `keep` stay, whatever their use.
        A model file that was cut short is logged, not raised, and ends rebalancing:
        what is resident goes on serving.
        """
        moves = self.hot.plan(self.use.decayed(), keep)
        if self._unreadable or not (moves.load or moves.evict):
            return False
        try:
            self.hot.apply(moves)
        except ModelFileError as error:
            log.warning("the hot set stays as it is from now on: %s", error)
            self._unreadable = True
            return False
        log.info(
            "use has changed: %d experts into memory, %d out of it",
            len(moves.load),
            len(moves.evict),
        )
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


def _choose(options: LocalOptions) -> KernelChoice:
    """Choose the kernel, and say so."""
    candidates = kernel_candidates(options.n_threads)
    chosen = choose_kernel(candidates, options.kernel)
    log.info("%s", chosen.line)
    for warning in chosen.warnings:
        log.warning("%s", warning)
    return chosen


def _name_of(model_file: ModelFile) -> str:
    """Return 16 hex digits that change when the model's header or size does."""
    digest = hashlib.sha256(model_file.n_bytes.to_bytes(8, "little"))
    digest.update(model_file.read_range(0, min(_NAME_BYTES, model_file.n_bytes)))
    return digest.hexdigest()[:16]
