"""Check one model against one reference: all here, or scattered over real workers.

    local       every expert is computed in this process; those used stay in memory
                as far as half of what is free goes, the others are read again
    scattered   every expert is computed by workers, see worker_network.py

Both compute the same bytes in the same profile. Blocking; the scattered run has an
event loop of its own.
"""

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

from mobile_worker.arithmetic.formats.block_format import block_size
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.clock import SystemClock
from mobile_worker.contribute.machine import this_machine
from p2pmoe.backbone.local_side import LocalOptions, LocalSide
from p2pmoe.backbone.scattered import ScatteredExperts
from p2pmoe.backbone.trace import RequestTrace, StepTrace
from p2pmoe.check.comparison import Comparison, Produced, compare, produce
from p2pmoe.check.reference import Reference, check_fits, read_reference
from p2pmoe.check.worker_network import (
    NetworkAnswer,
    NetworkQuestion,
    Scattering,
    TellStep,
    run_over_workers,
)
from p2pmoe.config import DiskPolicy
from p2pmoe.model.model import describe_model
from p2pmoe.network.running import run_to_the_end
from p2pmoe.weights.manifest import build_manifest
from p2pmoe.weights.model_file import ModelFile, open_model

__all__ = ["CheckOptions", "CheckReport", "check_model"]

_FREE_SHARE = 2  # a half of the free memory is for experts


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """What to check, and how; `n_workers` 0 computes everything in this process.

    `kernel` names the one to compute with, None the best here; `n_threads` share an
    expert call. Workers take both from their own surroundings.
    """

    model: Path
    reference: Path
    profile: Profile = Profile.R32
    n_workers: int = 0
    kernel: str | None = None
    n_threads: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What a check found; `scattering` None if everything was computed here.

    `rounded` names the formats of the model's weights that are no floats.
    """

    architecture: str
    kernel: str
    comparison: Comparison
    scattering: Scattering | None
    rounded: tuple[str, ...] = ()


def check_model(
    options: CheckOptions, tell: TellStep = lambda _label, _share: None
) -> CheckReport:
    """Run a reference through a model and compare; `tell` may come from a thread.

    Raises:
        ReferenceRefused: the reference is none, or is of another model.
        ModelFileError, ModelRefused, FormatUnsupported, KernelUnavailable: the model
            cannot be run.
        ChildFailed, ExpertsUnavailable: the workers' network failed.
        KeyboardInterrupt: a signal came while it ran; nothing is left running.
    """
    reference = read_reference(options.reference)
    with (
        open_model(options.model) as model_file,
        tempfile.TemporaryDirectory(
            prefix="p2pmoe-check-", ignore_cleanup_errors=True
        ) as name,
    ):
        check_fits(reference, describe_model(model_file))
        tell("weights into memory", 0.0)
        local = LocalSide(
            model_file,
            LocalOptions(
                data=Path(name),
                n_lanes=1,
                profile=options.profile,
                policy=DiskPolicy.OFF if options.n_workers else DiskPolicy.FALLBACK,
                kernel=options.kernel,
                n_threads=options.n_threads,
            ),
        )
        scattering = None
        if options.n_workers:
            question = NetworkQuestion(
                local=local,
                manifest=build_manifest(model_file),
                reference=reference,
                n_workers=options.n_workers,
            )
            answer = _scattered(Path(name), question, tell)
            produced, scattering = answer.produced, answer.scattering
        else:
            produced = _local(local, reference, tell)
        return CheckReport(
            architecture=local.model.description.architecture,
            kernel=local.kernel.name,
            comparison=compare(reference, produced),
            scattering=scattering,
            rounded=_rounded(model_file),
        )


def _rounded(model_file: ModelFile) -> tuple[str, ...]:
    formats = {tensor.format for tensor in model_file.tensors.values()}
    return tuple(sorted(each.name for each in formats if block_size(each)[0] > 1))


def _local(local: LocalSide, reference: Reference, tell: TellStep) -> Produced:
    free = this_machine().free_memory_bytes or 0
    local.hot.budget_bytes = min(local.hot.budget_bytes, free // _FREE_SHARE)
    experts = ScatteredExperts(local.places(), StepTrace.of(RequestTrace()), math.inf)
    return produce(
        local.model, experts, reference, lambda share: tell("reference run", share)
    )


def _scattered(
    folder: Path, question: NetworkQuestion, tell: TellStep
) -> NetworkAnswer:
    return run_to_the_end(
        lambda: run_over_workers(folder, question, SystemClock(), tell)
    )
