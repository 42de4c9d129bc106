"""What is told of a pass."""

from p2pmoe.passes.values import LayerTrace, PassTrace


def test_a_lane_waits_from_where_its_own_work_ends() -> None:
    layer = LayerTrace(layer=3, start_s=0.25, meanwhile_s=0.5, wait_s=1.0)
    assert layer.wait_from_s == 0.75


def test_a_pass_without_drafts_has_one_row_of_one_request() -> None:
    plain = PassTrace(start_s=1.0, seconds=0.5)
    assert (plain.n_rows, plain.n_sequences, plain.drafter) == (1, 1, "")
    assert plain.layers == ()


def test_a_crossing_ends_with_the_last_answer_even_if_the_lane_came_late() -> None:
    late = LayerTrace(
        layer=3, start_s=1.0, meanwhile_s=5.0, wait_s=0.0, answered_s=3.5, trips=1
    )
    assert late.crossing_s == 2.5
    assert LayerTrace(layer=3, start_s=1.0, meanwhile_s=2.0, wait_s=1.0).crossing_s == 3
