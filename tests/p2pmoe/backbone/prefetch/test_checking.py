"""Only the model's own bytes become weights."""

from dataclasses import replace

import numpy as np
import pytest

from mobile_worker.arithmetic.errors import ArithmeticRefused
from mobile_worker.expert_id import ExpertId
from mobile_worker.shards.errors import ShardCorrupt
from p2pmoe.backbone.prefetch.checking import ShardChecker
from tests.support.small_model import small_model

MODEL = small_model()
ONE = ExpertId(1, 0)


def test_the_right_bytes_are_the_experts_weights() -> None:
    checker = ShardChecker(MODEL.manifest)
    _, model = MODEL.held((1, 0))
    for _ in range(2):
        weights = checker.weights(ONE, memoryview(MODEL.shards[ONE]))
        for part in ("gate", "up", "down"):
            mine, theirs = getattr(weights, part), getattr(model.weights[ONE], part)
            assert np.array_equal(mine.raw, theirs.raw)


@pytest.mark.parametrize("other", [b"", bytes(7), MODEL.shards[ExpertId(1, 1)]])
def test_other_bytes_are_refused(other: bytes) -> None:
    with pytest.raises(ShardCorrupt, match="1\\.0"):
        ShardChecker(MODEL.manifest).weights(ONE, memoryview(other))


def test_a_model_that_holds_no_numbers_is_refused() -> None:
    import hashlib

    shard = bytearray(MODEL.shards[ONE])
    shard[:2] = b"\0\x7c"
    entry = replace(MODEL.manifest.experts[0], digest=hashlib.sha256(shard).digest())
    manifest = replace(MODEL.manifest, experts=(entry,))
    with pytest.raises(ArithmeticRefused):
        ShardChecker(manifest).weights(ONE, memoryview(shard))
