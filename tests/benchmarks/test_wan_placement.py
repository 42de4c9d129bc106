"""Ranks by layer, and a budget that holds exactly the hotter half of each."""

from pathlib import Path

import numpy as np

from p2pmoe.backbone.use import load_use
from p2pmoe.weights.model_file import open_model
from tests.benchmarks.wan_placement import Halves, ranked, write_use
from tests.support.backbone_model import POCKET


def test_ranks_are_the_same_figures_in_every_layer_that_has_experts() -> None:
    use = np.array([[0.0, 0, 0, 0], [5, 9, 9, 1], [0.5, 0.1, 0.2, 0.3]])
    assert ranked(use).tolist() == [[0, 0, 0, 0], [2, 4, 3, 1], [4, 1, 2, 3]]


def test_a_backbone_finds_the_record_under_its_model_s_name(tmp_path: Path) -> None:
    use = ranked(np.random.default_rng(1).random((8, 32)))
    halves = Halves(
        model=POCKET,
        use=use,
        ram_bytes=1,
        ram_beside_buffer_bytes=2,
        buffer_bytes=1,
        total_bytes=2,
        n_at_hand=112,
    )
    write_use(halves, tmp_path / "backbone")
    name = open_model(POCKET).fingerprint().hex()[:16]
    found = load_use(tmp_path / "backbone" / f"use-{name}.bin", 8, 32)
    assert found is not None
    assert (found == use).all()
