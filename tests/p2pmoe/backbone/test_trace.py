"""Each request gets what its own rows cost, whoever shares the step with it."""

import trio
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.backbone.generation import TierCalls
from p2pmoe.backbone.plan import ExpertRows, Tier
from p2pmoe.backbone.trace import RequestTrace, StepTrace
from tests.support.backbone_model import POCKET, generate, local_backbone, local_side
from tests.support.trio_test import trio_test

Calls = list[ExpertRows]


def step_of(
    n_rows: list[int], faults: list[tuple[int, int]] | None = None
) -> tuple[StepTrace, list[RequestTrace]]:
    """Return a step of new requests whose clock stands at 1, 2, 3 s and so on."""
    traces = [RequestTrace() for _ in n_rows]
    clock = iter(range(1, 100))
    counts = iter(faults or [(0, 0)] * 2)
    step = StepTrace(
        list(zip(traces, n_rows, strict=True)),
        monotonic=lambda: float(next(clock)),
        faults=lambda: next(counts),
    )
    return step, traces


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[int], Calls]:
    """Draw rows of some requests, and the calls of a layer over all of them."""
    n_rows = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    row = st.integers(0, sum(n_rows) - 1)
    rows = st.lists(st.sets(row, min_size=1), min_size=1, max_size=6)
    calls = [
        ExpertRows(expert=e, rows=tuple(sorted(own)))
        for e, own in enumerate(draw(rows))
    ]
    return n_rows, calls


def alone(calls: Calls, first: int, n: int) -> Calls:
    """Return the calls as they are when rows `first` to `first + n` run alone."""
    mine = [
        ExpertRows(
            expert=call.expert,
            rows=tuple(row - first for row in call.rows if first <= row < first + n),
        )
        for call in calls
    ]
    return [call for call in mine if call.rows]


@given(batches(), st.integers(0, 10**6))
def test_a_requests_calls_are_those_of_a_run_alone_and_bytes_sum_up(
    batch: tuple[list[int], Calls], n_bytes: int
) -> None:
    n_rows, calls = batch
    step, traces = step_of(n_rows, [(5, 1), (5 + n_bytes, 8)])
    step.called(Tier.RAM, calls)
    step.sent(calls, n_bytes)
    step.received(calls, n_bytes + 1)
    step.read(calls[0], n_bytes)
    step.waited(calls, 0.5)
    step.end()
    assert step.n_cold == (n_bytes > 0)
    first = 0
    for n, trace in zip(n_rows, traces, strict=True):
        own = alone(calls, first, n)
        solo, (single,) = step_of([n])
        solo.called(Tier.RAM, own)
        assert trace.calls == single.calls
        assert trace.prefill_trips == bool(own)
        assert trace.wait_s == 0.5 * bool(own)
        first += n
    assert sum(trace.bytes_up for trace in traces) == n_bytes
    assert sum(trace.bytes_down for trace in traces) == n_bytes + 1
    assert sum(trace.read_bytes for trace in traces) == n_bytes
    assert sum(trace.minor_faults for trace in traces) == n_bytes
    assert sum(trace.major_faults for trace in traces) == 7


def test_figures_are_those_of_the_step_and_not_of_the_request_so_far() -> None:
    trace = RequestTrace()
    for decoding in (False, True):
        trace.decoding = decoding
        now = iter([10.0, 12.5]).__next__
        step = StepTrace([(trace, 1)], monotonic=now, faults=lambda: (0, 0))
        call = ExpertRows(expert=3, rows=(0,))
        step.called(Tier.HUB, [call])
        step.called(Tier.DISK, [call, call])
        step.read(call, 0)
        step.read(call, 70)
        assert step.n_cold == 1
        step.sent([call], 11)
        step.received([call], 22)
        step.waited([call], 0.25)
        step.dropped([call])
        step.failed_over([call])
        step.end()
        step.end()
        figures = step.figures(0)
        assert figures.calls == TierCalls(hub=1, disk=2)
        assert figures.seconds == 2.5
        assert figures.wait_s == 0.25
        assert figures.round_trips == figures.cache_hits == figures.dropped_calls == 1
        assert (figures.read_bytes, figures.bytes_up, figures.bytes_down) == (
            70,
            11,
            22,
        )
    assert trace.tier_calls() == TierCalls(hub=2, disk=4)
    assert (trace.prefill_trips, trace.decode_trips) == (1, 1)
    assert (trace.wait_s, trace.decode_wait_s) == (0.5, 0.25)
    assert trace.failovers == 2


def test_a_step_is_cancelled_if_it_is_stopped_or_nobody_wants_it() -> None:
    step, (one, other) = step_of([1, 2])
    one.cancelled = True
    assert not step.cancelled
    other.cancelled = True
    assert step.cancelled
    step, (trace,) = step_of([1])
    step.stop()
    assert step.cancelled
    assert not trace.cancelled


def test_hashes_are_kept_for_those_who_trace_by_their_own_positions() -> None:
    other, traced = RequestTrace(), RequestTrace()
    traced.traces, traced.position = True, 100
    step = StepTrace([(other, 2), (traced, 3)])
    assert step.is_traced
    assert [step.wants_hash(row) for row in range(5)] == [False] * 2 + [True] * 3
    step.hashed(3, 1, 7, b"c")
    step.hashed(3, 1, None, b"b")
    step.hashed(2, 5, None, b"a")
    assert step.hashes(0) == ()
    found = [(h.position, h.layer, h.expert, h.digest) for h in step.hashes(1)]
    assert found == [(100, 5, None, b"a"), (101, 1, None, b"b"), (101, 1, 7, b"c")]
    assert not other.traces
    assert not StepTrace.of(other).is_traced


def test_any_row_is_the_only_parts() -> None:
    trace = RequestTrace()
    step = StepTrace.of(trace)
    step.called(Tier.EDGE, [ExpertRows(expert=1, rows=(0, 9))])
    step.sent([ExpertRows(expert=1, rows=(9,))], 5)
    assert trace.calls[Tier.EDGE] == 1
    assert trace.bytes_up == 5


@trio_test
async def test_streams_that_share_steps_cost_what_they_would_alone() -> None:
    """All local; prompts that fit one chunk together, so that they are read whole."""
    prompts = [tuple(range(5 * n, 5 * n + 3 + n)) for n in range(1, 5)]
    alone = []
    async with local_backbone(local_side(POCKET)) as backbone:
        for prompt in prompts:
            tokens, run = await generate(backbone, prompt, 10)
            alone.append((tokens, run.trace.tier_calls()))
    together = {}
    async with local_backbone(local_side(POCKET)) as backbone:

        async def ask(at: int) -> None:
            tokens, run = await generate(backbone, prompts[at], 10)
            together[at] = (tokens, run.trace.tier_calls())

        async with trio.open_nursery() as nursery:
            for at in range(len(prompts)):
                nursery.start_soon(ask, at)
        n_steps = backbone.engine.lanes[0].n_steps
    assert [together[at] for at in range(len(prompts))] == alone
    assert n_steps < 40  # they did share
    total = sum(calls.ram for _, calls in alone)
    assert backbone.counters.calls[Tier.RAM] == total


def test_a_wait_for_weights_is_each_requests_and_hedges_are_counted() -> None:
    step, traces = step_of([1, 2])
    step.fetched(0.5, 3, 101)
    step.hedged([ExpertRows(expert=4, rows=(2,)), ExpertRows(expert=5, rows=(0, 1))])
    assert [trace.prefill_trips for trace in traces] == [1, 1]
    assert sum(trace.fetched_bytes for trace in traces) == 101
    assert [trace.hedges for trace in traces] == [1, 2]
    told = step.told()
    assert (told.trips, told.prefetch_s, told.n_sequences) == (1, 0.5, 2)
