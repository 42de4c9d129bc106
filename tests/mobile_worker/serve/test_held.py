"""Experts in memory, within a budget."""

import dataclasses

import pytest

from mobile_worker.arithmetic.errors import MatrixMalformed
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.expert_id import ExpertId
from mobile_worker.serve.held import HeldExperts, MemoryExhausted
from mobile_worker.shards.shard import ShardMisfit
from tests.support.small_model import small_model

MODEL = small_model()
ONE, TWO = ExpertId(1, 0), ExpertId(2, 3)
SIZE = len(MODEL.shards[ONE])


def test_b15_two_that_fit_singly_but_not_together() -> None:
    held = HeldExperts(2 * SIZE - 1)
    model = held.learn(MODEL.name, MODEL.manifest)
    held.check_room(SIZE)
    held.hold(model, ONE, MODEL.shards[ONE])
    held.hold(model, ONE, MODEL.shards[ONE])
    with pytest.raises(MemoryExhausted, match="do not fit"):
        held.check_room(SIZE)
    with pytest.raises(MemoryExhausted):
        held.hold(model, TWO, MODEL.shards[TWO])
    assert held.used_bytes == SIZE
    assert held.shard(MODEL.digest(ONE)) == MODEL.shards[ONE]
    assert held.shard(MODEL.digest(TWO)) is None
    held.drop(MODEL.name, frozenset())
    assert held.used_bytes == 0
    assert held.shard(MODEL.digest(ONE)) is None
    assert held.model(MODEL.name) is None


def test_dropping_keeps_what_is_named() -> None:
    held, model = MODEL.held((1, 0), (2, 3))
    held.drop(MODEL.name, frozenset({TWO}))
    assert list(model.weights) == [TWO]
    assert held.used_bytes == SIZE
    assert held.model(MODEL.name) is model
    held.drop(b"?" * 32, frozenset())


def test_a_shard_that_is_none_is_refused() -> None:
    held = HeldExperts(1 << 20)
    model = held.learn(MODEL.name, MODEL.manifest)
    with pytest.raises(ShardMisfit):
        held.hold(model, ONE, MODEL.shards[ONE][:-1])
    assert held.used_bytes == 0
    assert model.weights == {}


def test_a_shard_without_numbers_is_refused_and_named() -> None:
    held = HeldExperts(1 << 20)
    model = held.learn(MODEL.name, MODEL.manifest)
    shard = bytearray(MODEL.shards[TWO])
    shard[:2] = b"\0\x7c"
    with pytest.raises(MatrixMalformed, match=r"gate of expert 2\.3: row 0"):
        held.hold(model, TWO, bytes(shard))
    assert held.used_bytes == 0
    assert model.weights == {}


def test_which_form_of_rows_an_expert_reads() -> None:
    for block_format, needs in (
        (Format.Q4_0, (True, False)),
        (Format.Q8_0, (True, False)),
        (Format.MXFP4, (True, False)),
        (Format.F16, (False, True)),
        (Format.BF16, (False, True)),
        (Format.F32, (False, True)),
    ):
        _, model = small_model("forms", block_format).held()
        assert model.needs(ONE) == needs


def test_an_expert_that_does_not_fit_unpacked_is_refused() -> None:
    layout = dataclasses.replace(MODEL.manifest.layouts[0], n_ff=1 << 20)
    n_bytes = 2 * 4 * 64 << 20
    held = HeldExperts(n_bytes - 1)
    with pytest.raises(MemoryExhausted, match=f"{n_bytes} bytes unpacked"):
        held.check_width(layout)
    HeldExperts(n_bytes).check_width(layout)
    HeldExperts(0).check_width(MODEL.manifest.layouts[0])


def test_a_shard_of_two_models_stays_until_both_have_dropped_it() -> None:
    model = small_model()
    held, first = model.held((1, 0))
    second = held.learn(b"o" * 32, model.manifest)
    expert = ExpertId(1, 0)
    held.hold(second, expert, model.shards[expert])
    held.drop(first.name, frozenset())
    assert held.shard(model.digest(expert)) == model.shards[expert]
    held.drop(second.name, frozenset())
    assert held.shard(model.digest(expert)) is None
    assert held.used_bytes == 0
