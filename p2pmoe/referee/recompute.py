"""Recompute one leaf's results from its opened rows: equal to the bit, or not.

Contract: expert arithmetic is exact (specification 02), so whoever has the expert and
the rows gets the very bytes that an honest worker got, on any machine and kernel. The
expert must be the one that the voucher names: its shard's digest stands in a manifest
of the hash that both sides signed. Rows that no expert takes give no results; an honest
worker would have refused them, and signed no leaf. Blocking; reads one expert.
"""

import hashlib
from dataclasses import dataclass

from ledger.dispute_papers import Half, Opening
from ledger.leaf import Leaf
from ledger.voucher import Voucher
from mobile_worker.arithmetic.errors import CodeRefused, NonFinite, ShapeMismatch
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.expert_id import ExpertId
from mobile_worker.servings.hashes import out_hash
from mobile_worker.servings.opened_rows import rows_from
from mobile_worker.shards.manifest import Manifest, manifest_hash
from p2pmoe.errors import ConfigurationError
from p2pmoe.weights.expert_file import ExpertFile
from p2pmoe.weights.model_file import ModelFile

__all__ = ["Case", "Finding", "check_expert_of_manifest", "recompute"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is to be recomputed: a leaf of a voucher, and the rows that went in."""

    voucher: Voucher
    leaf: Leaf
    rows: Opening

    @property
    def expert(self) -> ExpertId:
        """The expert that served."""
        return ExpertId(self.leaf.layer, self.leaf.expert)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What came out; `results` and `out_hash` are None where nothing can."""

    results: bytes | None
    out_hash: bytes | None  # [16]
    reason: str  # why nothing came out
    kernel: str
    is_equal: bool  # to what the worker gave


def check_expert_of_manifest(
    case: Case, manifest: Manifest, experts: ExpertFile
) -> None:
    """Check that the file's expert is the one that the voucher's model names.

    Raises:
        ConfigurationError: the manifest is another, or the file's expert differs.
        ModelFileError: the expert cannot be read.
    """
    if manifest_hash(manifest) != case.voucher.manifest_hash:
        raise ConfigurationError(
            f"the model's manifest is {manifest_hash(manifest).hex()[:16]}, the "
            f"voucher names {case.voucher.manifest_hash.hex()[:16]}",
            advice="give the model, or the manifest, that the backbone served",
        )
    digest = hashlib.sha256(experts.shard(case.expert)).digest()
    named = {entry.expert: entry.digest for entry in manifest.experts}
    if named.get(case.expert) != digest:
        raise ConfigurationError(
            f"expert {case.expert} of this file is not the one in the manifest",
            advice="give the model that the backbone served",
        )


def recompute(
    case: Case, model_file: ModelFile, manifest: Manifest, kernel: Kernel
) -> Finding:
    """Compute a leaf's results again.

    Raises:
        ConfigurationError: the model is not the voucher's, or its profile is unknown.
        ModelFileError, FormatUnsupported: the expert cannot be read or computed with.
        ProofRefused: the rows are not the leaf's.
    """
    case.rows.check(case.leaf)
    if case.rows.half is not Half.ROWS:
        raise ConfigurationError("results were opened where rows are needed")
    experts = ExpertFile(model_file)
    check_expert_of_manifest(case, manifest, experts)
    try:
        profile = Profile(case.voucher.profile)
    except ValueError as exc:
        raise ConfigurationError(
            f"the voucher's profile {case.voucher.profile} is unknown"
        ) from exc
    weights = experts.weights(case.expert)
    try:
        rows = rows_from(case.rows.raw, case.leaf.rows, weights.gate.n_cols)
        results = kernel.expert(weights, rows, profile)
    except (CodeRefused, NonFinite, ShapeMismatch) as exc:  # the rows' fault alone
        return Finding(
            results=None,
            out_hash=None,
            reason=str(exc),
            kernel=kernel.name,
            is_equal=False,
        )
    found = out_hash(results)
    return Finding(
        results=results,
        out_hash=found,
        reason="",
        kernel=kernel.name,
        is_equal=found == case.leaf.out_hash,
    )
