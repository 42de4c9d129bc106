"""Letters of experts, row by row."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.expert_id import ExpertId
from p2pmoe.network.grids import Grid

A, B, C = ExpertId(3, 0), ExpertId(3, 2), ExpertId(7, 1)
GRID = Grid([C, A, B])


def test_a_row_is_a_layer_and_gaps_are_dots() -> None:
    assert GRID.layers == [3, 7]
    assert (GRID.width, GRID.n_cells) == (3, 6)
    assert GRID.copies({}, ()) == ["a.a", ".a."]


def test_copies_are_letters_and_what_is_at_hand_is_upper_case() -> None:
    assert GRID.copies({A: 1, C: 3}, {B, C}) == ["b.A", ".D."]
    assert GRID.copies({A: 25, B: 1000}, ()) == ["z.z", ".a."]


@pytest.mark.parametrize(
    ("multiple", "digit"),
    [(0.0, "0"), (0.05, "0"), (0.0625, "1"), (0.5, "4"), (1.0, "5"), (2.1, "6"),
     (16.0, "9"), (1e9, "9")],
)  # fmt: skip
def test_use_is_a_power_of_two(multiple: float, digit: str) -> None:
    assert GRID.use({A: multiple}) == [f"{digit}.0", ".0."]


EXPERTS = st.sets(st.builds(ExpertId, st.integers(0, 9), st.integers(0, 9)), max_size=9)


@given(experts=EXPERTS)
def test_every_expert_has_its_cell(experts: set[ExpertId]) -> None:
    grid = Grid(experts)
    rows = grid.copies(dict.fromkeys(experts, 2), ())
    found = {
        ExpertId(layer, index)
        for layer, row in zip(grid.layers, rows, strict=True)
        for index, letter in enumerate(row)
        if letter == "c"
    }
    assert found == experts
    assert all(len(row) == grid.width for row in rows)


def test_no_experts_at_all() -> None:
    assert (Grid([]).layers, Grid([]).n_cells, Grid([]).use({})) == ([], 0, [])
