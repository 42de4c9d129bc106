import numpy as np

from p2pmoe.model.attention import dot_scores
from p2pmoe.model.block_selection import BlockSelection

SELECTION = BlockSelection(top_k=2, block_size=4, n_local=1)


def seen(best: dict[int, float], n_positions: int, first: int) -> list[set[int]]:
    """Which blocks each row sees; `best` gives the score of some positions."""
    keys = np.zeros((1, 8, n_positions), np.float32)
    for position, score in best.items():
        keys[0, 0, position] = score
    queries = np.zeros((n_positions - first, 1, 8), np.float32)
    queries[:, 0, 0] = 1.0
    mask = SELECTION.seen(dot_scores(queries[:, None], keys)[:, 0], first)
    return [{int(t) // 4 for t in np.nonzero(row[0])[0]} for row in mask]


def test_the_own_block_and_the_best_other() -> None:
    assert seen({1: 1.0, 6: 2.0, 9: -1.0}, 16, 15) == [{1, 3}]
    assert seen({1: 3.0, 6: 2.0}, 16, 15) == [{0, 3}]


def test_a_blocks_score_is_its_best_position() -> None:
    assert seen({0: 2.0, 1: -9.0, 4: 1.9, 5: 1.9, 6: 1.9}, 12, 11) == [{0, 2}]


def test_equal_blocks_the_lower_one_wins() -> None:
    assert seen({}, 16, 15) == [{0, 3}]


def test_the_own_block_is_seen_however_low_it_scores() -> None:
    low = dict.fromkeys(range(12, 16), -5.0)
    assert seen({**low, 9: 1.0}, 16, 15) == [{2, 3}]


def test_the_future_never_counts() -> None:
    # Row at position 9 must not choose by position 10 of its own block, nor block 3.
    assert seen({10: 9.0, 13: 9.0, 2: 1.0}, 16, 9)[0] == {0, 2}


def test_each_row_chooses_for_itself() -> None:
    rows = seen({1: 1.0, 6: 2.0}, 16, 7)
    assert rows[0] == {0, 1}
    assert rows[-1] == {1, 3}


def test_heads_choose_apart() -> None:
    keys = np.zeros((1, 8, 12), np.float32)
    keys[0, 0, 0] = keys[0, 1, 4] = 1.0
    queries = np.zeros((1, 2, 8), np.float32)
    queries[0, 0, 0] = queries[0, 1, 1] = 1.0
    mask = SELECTION.seen(dot_scores(queries[:, None], keys)[:, 0], 11)
    assert mask[0, 0].tolist() == [True] * 4 + [False] * 4 + [True] * 4
    assert mask[0, 1].tolist() == [False] * 4 + [True] * 8


def test_up_to_here_everything_is_seen() -> None:
    assert SELECTION.n_all == 8
