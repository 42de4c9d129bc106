"""A layer that is all in memory gives the bytes, hashes and counts of any other way."""

import numpy as np
import pytest

from p2pmoe.backbone.generation import TracedHash
from p2pmoe.backbone.layer_at_hand import LayerAtHand
from p2pmoe.backbone.local_side import LocalSide
from p2pmoe.backbone.pending_layer import ScatteredPending
from p2pmoe.backbone.plan import Tier
from p2pmoe.backbone.scattered import ScatteredExperts
from p2pmoe.backbone.trace import RequestTrace, StepTrace
from p2pmoe.errors import NotFinite
from p2pmoe.model.experts import Routing
from tests.support.backbone_model import POCKET, local_side

LAYER = 3


def routing_of(n_rows: int, seed: int = 0) -> Routing:
    random = np.random.default_rng(seed)
    experts = [np.sort(random.choice(32, 4, replace=False)) for _ in range(n_rows)]
    return Routing(
        experts=np.array(experts, np.int64),
        weights=random.random((n_rows, 4)).astype(np.float32),
    )


def hidden_of(side: LocalSide, n_rows: int) -> np.ndarray:
    n_embd = side.model.description.n_embd
    random = np.random.default_rng(1)
    return random.standard_normal((n_rows, n_embd)).astype(np.float32)


def run(
    side: LocalSide, rows: list[int], kind: type
) -> tuple[bytes, list[RequestTrace], list[tuple[TracedHash, ...]]]:
    traces = [RequestTrace() for _ in rows]
    for trace in traces:
        trace.traces = True
    step = StepTrace(list(zip(traces, rows, strict=True)))
    n_rows = sum(rows)
    pending = ScatteredExperts(side.places(), step, 1e12).begin(
        LAYER, hidden_of(side, n_rows), routing_of(n_rows)
    )
    assert isinstance(pending, kind)
    values = pending.finish()
    return values.tobytes(), traces, [step.hashes(part) for part in range(len(rows))]


@pytest.mark.parametrize("rows", [[1], [5], [1, 1, 1], [2, 3, 1]])
def test_it_equals_what_is_read_from_disk(rows: list[int]) -> None:
    values, traces, hashes = run(local_side(POCKET), rows, LayerAtHand)
    cold = local_side(POCKET, hot_share=0.0)
    read_values, read_traces, read_hashes = run(cold, rows, ScatteredPending)
    assert values == read_values
    assert hashes == read_hashes
    for trace, read in zip(traces, read_traces, strict=True):
        assert trace.calls[Tier.RAM] == read.calls[Tier.DISK] + read.calls[Tier.RAM]
        assert trace.calls[Tier.DISK] == 0
    for n_rows, own in zip(rows, hashes, strict=True):
        assert len(own) == n_rows * 5


def test_the_row_that_is_not_finite_is_named() -> None:
    side = local_side(POCKET)
    hidden = hidden_of(side, 3)
    hidden[1] = 3e38
    step = StepTrace.of(RequestTrace(), 3)
    pending = ScatteredExperts(side.places(), step, 1e12).begin(
        LAYER, hidden, routing_of(3)
    )
    with pytest.raises(NotFinite, match=r"layer 3, expert \d") as failed:
        pending.finish()
    assert failed.value.rows == (1,)
