"""One serving that an expert of the pocket model really computed, in a closed tab."""

import dataclasses
import functools
from dataclasses import dataclass
from pathlib import Path

from ledger.leaf import Leaf
from ledger.store import Store
from mobile_worker.arithmetic.coding import ExpertInput, quantize_rows
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.arithmetic.self_test import fixed_rows
from mobile_worker.expert_id import ExpertId
from mobile_worker.servings.hashes import out_hash, x_hash
from mobile_worker.servings.opened_rows import opened_bytes
from mobile_worker.shards.manifest import manifest_hash
from p2pmoe.weights.expert_file import ExpertFile
from tests.support.backbone_model import POCKET, manifest_of, model_of
from tests.support.ledger_world import HOUR_US, TabSide, World, seeded_key

__all__ = ["Serving", "close_with", "identity_folder", "pocket_world", "serving"]

EXPERT = ExpertId(1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """Two rows, and what the expert makes of them in profile R8."""

    rows: bytes
    results: bytes
    x_hash: bytes
    out_hash: bytes


@functools.cache
def serving() -> Serving:
    weights = ExpertFile(model_of(POCKET)).weights(EXPERT)
    rows = ExpertInput(
        coded=quantize_rows(fixed_rows("served", 2, weights.gate.n_cols))
    )
    results = NumpyKernel().expert(weights, rows, Profile.R8)
    return Serving(
        rows=opened_bytes(rows),
        results=results,
        x_hash=x_hash(rows),
        out_hash=out_hash(results),
    )


def pocket_world() -> World:
    """A world whose prices and tabs are of the pocket model."""
    world = World()
    world.manifest_hash = manifest_hash(manifest_of(POCKET))
    world.prices = dataclasses.replace(world.prices, manifest_hash=world.manifest_hash)
    return world


def close_with(world: World, store: Store, results: bytes) -> TabSide:
    """A tab closed with one serving of those rows and these results."""
    policy = {"holdback_ppm": 100_000, "holdback_us": 60 * HOUR_US, "commit": True}
    store.operate("policy.set", policy).result(60)
    tab = world.tab(store.grant(world.order()).result(60))
    leaf = dataclasses.replace(
        Leaf.parse(tab.leaf(0)),
        layer=EXPERT.layer,
        expert=EXPERT.index,
        rows=2,
        x_hash=serving().x_hash,
        out_hash=out_hash(results),
        amount_uc=world.prices.amount(EXPERT.layer, EXPERT.index, 2),
    )
    block = leaf.pack()
    tab.tally.add(block)
    tab.leaves[0] = block
    signed = tab.sign(tab.draft(final=True))
    assert store.file(signed, block, tab.backbone.id).result(60).status == 0
    return tab


def identity_folder(path: Path, name: str) -> Path:
    """A folder with the identity file of a named party."""
    path.mkdir()
    seed = seeded_key(name).private_bytes_raw().hex()
    file = path / "identity"
    file.write_text(f"p2pmoe identity v1\ned25519 {seed}\nx25519 {'11' * 32}\n")
    file.chmod(0o600)
    return path
