"""What an answer tells of its passes is what they did: over real sessions, with drafts.

Half of the experts are at workers. Every sum over passes is one that is also counted
elsewhere: tokens, drafts, the request's waits and the lane's.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path

from mobile_worker.expert_id import ExpertId
from p2pmoe.passes.documents import pass_document, read_pass
from p2pmoe.passes.summary import decode_passes, summarise, summarise_layers
from p2pmoe.trace.timeline import Kind, arrange
from p2pmoe.trace.timeline_svg import draw_timeline
from tests.integration.test_speculation import halves, requests_of
from tests.integration.test_trace_diff import asking, call, invoke
from tests.support.backbone_model import POCKET
from tests.support.trio_test import trio_test


@trio_test
async def test_passes_tell_what_was_counted(tmp_path: Path) -> None:
    request = replace(requests_of(1, 24)[0], explains=True)
    async with halves(tmp_path, [], 4) as (backbone, side):
        async with backbone.engine.generate(request) as run:
            steps = [step async for step in run]
        (lane,) = backbone.engine.lanes
        totals, hot = lane.totals, set(side.hot.resident())
    passes = [told for step in steps for told in step.passes]
    found = summarise(decode_passes(passes))

    assert sum(told.n_committed for told in passes) == sum(
        len(step.tokens) for step in steps
    )
    for step in steps:
        whole = [told for told in step.passes if not told.failure]
        assert sum(told.trips for told in whole) == step.figures.round_trips
    usage = run.end().usage
    assert sum(told.n_drafted for told in passes) == usage.drafted_tokens > 0
    assert sum(told.n_accepted for told in passes) == usage.accepted_draft_tokens
    assert (found.n_passes, found.n_tokens) == (totals.n_passes, totals.n_committed)
    assert found.n_trips == totals.n_trips == run.end().timings.round_trips

    for told in passes:
        assert sum(layer.trips for layer in told.layers) == told.trips
        assert told.n_layers == 7 or told.failure
        assert told.wait_s <= told.seconds
        for layer in told.layers:
            assert layer.missing
            assert not hot & {ExpertId(layer.layer, e) for e in layer.missing}
            assert 0 < layer.crossing_s <= layer.meanwhile_s + layer.wait_s + 1e-6
    by_layer = summarise_layers(decode_passes(passes))
    assert sum(layer.n_passes for layer in by_layer) == found.n_trips

    again = [read_pass(pass_document(told)) for told in passes]
    timeline = arrange(again)
    assert len(timeline.marks) == len(passes)
    n_waits = sum(bar.kind is Kind.AWAY and bool(bar.label) for bar in timeline.bars)
    assert n_waits == sum(told.trips for told in passes)
    assert draw_timeline(timeline, "run").endswith("</svg>\n")


@trio_test
async def test_the_commands_show_them_over_the_api(tmp_path: Path) -> None:
    async with asking(tmp_path, POCKET) as backbone:
        run = await backbone.run("a")
        assert run.exit_code == 0, run.stderr
    passes = run.stderr.split("\n\n")[1].splitlines()
    assert passes[0].startswith("pass\ttext\ttokens\t")
    assert [line.split("\t")[0] for line in passes[1:7]] == ["prompt", *"12345"]
    assert "tokens per pass         1.000" in run.stderr
    trace, picture = str(tmp_path / "a"), tmp_path / "a.svg"
    shown = await call(partial(invoke, ["trace", "show", trace]))
    table, sums = shown.stdout.strip().split("\n\n")  # no layer waits here
    assert len(table.splitlines()) == 1 + 6
    assert sums.startswith("trips per token         0.000\n")
    plotted = await call(
        partial(invoke, ["trace", "plot", trace, "--out", str(picture)])
    )
    assert plotted.exit_code == 0, plotted.stderr
    assert "5 tokens in 5 passes (g = 1.00)" in picture.read_text()
