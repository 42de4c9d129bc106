"""All runs on one axis."""

import dataclasses

from p2pmoe.evaluate.timeline import series_of, timeline
from tests.support.evaluations import RUN, changed


def test_changes_are_told_at_the_run_they_came_before():
    unknown = dataclasses.replace(RUN, configuration=None)
    runs = [RUN, RUN, changed(profile="r8", disk="off"), unknown, unknown]
    moments = timeline((f"run {n}", run) for n, run in enumerate(runs))
    assert [moment.changed for moment in moments] == [
        ("new",),
        (),
        ("disk", "profile"),
        ("configuration",),
        (),
    ]
    assert moments[2].name == "run 2"
    assert moments[3].digest == ""


def test_other_inputs_are_other_series():
    assert RUN.text is not None
    text = dataclasses.replace(RUN.text, sha256="99" * 32)
    other = dataclasses.replace(RUN, text=text, figures={"perplexity": 7.0})
    found = [s for s in series_of([RUN, other, RUN]) if s.figure == "perplexity"]
    assert [(s.input, s.points) for s in found] == [
        (1, ((0, 40.5), (2, 40.5))),
        (2, ((1, 7.0),)),
    ]
    assert series_of([]) == []
