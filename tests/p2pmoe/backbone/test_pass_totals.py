"""A, g and the time of a crossing, from a lane's passes."""

from p2pmoe.backbone.pass_record import PassRecord
from p2pmoe.backbone.pass_totals import PassTotals
from p2pmoe.backbone.plan import ExpertRows, Tier
from p2pmoe.backbone.trace import RequestTrace, StepTrace


def request(*, decodes: bool) -> RequestTrace:
    trace = RequestTrace()
    trace.decoding = decodes
    return trace


def step(*decodes: bool, waits: int = 0) -> StepTrace:
    """Return a pass of a row each, with waits of a second."""
    parts = [(request(decodes=each), 1) for each in decodes]
    found = StepTrace(parts, record=PassRecord(monotonic=lambda: 5.0))
    for _ in range(waits):
        found.waited([ExpertRows(expert=0, rows=(0,))], 1.0)
    return found


def test_passes_that_decode_are_summed() -> None:
    totals = PassTotals()
    totals.add(step(True, True, waits=3), [4, 2])
    totals.add(step(True, waits=1), [1])
    assert (totals.n_passes, totals.n_sequences, totals.n_committed) == (2, 3, 7)
    assert (totals.n_trips, totals.wait_s) == (4, 4.0)
    assert totals.crossing_s >= totals.wait_s


def test_prompts_are_left_out() -> None:
    totals = PassTotals()
    totals.add(step(False, waits=5), [1])
    assert (totals.n_passes, totals.n_trips, totals.n_committed) == (0, 0, 0)
    totals.add(step(False, True, waits=2), [1, 3])
    assert (totals.n_sequences, totals.n_committed, totals.n_trips) == (1, 3, 2)


def test_waits_of_a_pass_that_failed_were_paid_for() -> None:
    totals = PassTotals()
    totals.add(step(True, waits=2), ())
    assert (totals.n_trips, totals.n_committed) == (2, 0)


def test_servings_for_rejected_drafts_alone_are_told_apart() -> None:
    parts = [(request(decodes=True), 4), (request(decodes=True), 1)]
    taken = StepTrace(parts)  # a token and three drafts; another one's token
    calls = [
        ExpertRows(expert=0, rows=(0,)),
        ExpertRows(expert=1, rows=(1, 2)),
        ExpertRows(expert=2, rows=(2, 3)),
        ExpertRows(expert=3, rows=(3,)),
        ExpertRows(expert=4, rows=(3, 4)),
    ]
    taken.called(Tier.EDGE, calls)
    taken.called(Tier.RAM, [ExpertRows(expert=5, rows=(3,))])
    totals = PassTotals()
    totals.rejected(taken, [2, 0])  # the first draft was right
    assert totals.n_rejected_servings == 2
    totals.rejected(taken, [0, 0])
    assert totals.n_rejected_servings == 2
