from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.arithmetic.native.portions import split_calls, split_rows


@given(st.integers(1, 5000), st.integers(1, 9))
def test_ranges_of_rows_cover_all_once_in_whole_tiles(n_rows, n_parts):
    ranges = split_rows(n_rows, n_parts)
    assert len(ranges) <= n_parts
    assert [first for first, _ in ranges] == [0, *(end for _, end in ranges[:-1])]
    assert ranges[-1][1] == n_rows
    assert all(first < end for first, end in ranges)
    assert all(first % 16 == 0 for first, _ in ranges)


def test_rows_are_cut_evenly():
    assert split_rows(96, 3) == [(0, 32), (32, 64), (64, 96)]
    assert split_rows(10, 4) == [(0, 10)]


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 10**6)), max_size=12),
    st.integers(1, 8),
)
def test_pieces_of_calls_cover_all_once_in_order(calls, n_parts):
    n_rows = [rows for rows, _ in calls]
    work = [rows * cost for rows, cost in calls]
    parts = split_calls(work, n_rows, n_parts)
    assert len(parts) <= n_parts
    assert all(parts)
    pieces = [piece for part in parts for piece in part]
    covered = [(call, r) for call, first, end in pieces for r in range(first, end)]
    assert covered == [
        (call, r) for call, rows in enumerate(n_rows) for r in range(rows)
    ]


def test_work_is_shared_about_evenly():
    parts = split_calls([400, 400], [4, 4], 4)
    assert parts == [[(0, 0, 2)], [(0, 2, 4)], [(1, 0, 2)], [(1, 2, 4)]]
    assert split_calls([1, 1, 1, 1], [1, 1, 1, 1], 2) == [
        [(0, 0, 1), (1, 0, 1)],
        [(2, 0, 1), (3, 0, 1)],
    ]
