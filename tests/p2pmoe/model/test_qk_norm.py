import numpy as np

from mobile_worker.arithmetic.self_test import fixed_rows
from p2pmoe.model.norm import rms_norm
from p2pmoe.model.qk_norm import HeadNorm, RowNorm
from p2pmoe.model.row_operations import NUMPY_OPERATIONS

EPS = np.float32(1e-5)
HEADS = fixed_rows("heads", 3, 6 * 16).reshape(3, 6, 16)  # 4 queries, 2 keys
QUERY, KEY = fixed_rows("q", 1, 64)[0], fixed_rows("k", 1, 32)[0]


def test_each_head_by_itself() -> None:
    weight = fixed_rows("w", 6, 16)
    own = HeadNorm(weight=weight, eps=EPS, operations=NUMPY_OPERATIONS)(HEADS)
    for head in range(6):
        expected = rms_norm(HEADS[:, head], weight[head], EPS)
        assert own[:, head].tobytes() == expected.tobytes()


def test_all_heads_as_one_row() -> None:
    norm = RowNorm(query=QUERY, key=KEY, eps=EPS, operations=NUMPY_OPERATIONS)
    own = norm(HEADS).reshape(3, -1)
    rows = HEADS.reshape(3, -1)
    assert own[:, :64].tobytes() == rms_norm(rows[:, :64], QUERY, EPS).tobytes()
    assert own[:, 64:].tobytes() == rms_norm(rows[:, 64:], KEY, EPS).tobytes()


def test_a_row_alone_and_among_others() -> None:
    norm = RowNorm(query=QUERY, key=KEY, eps=EPS, operations=NUMPY_OPERATIONS)
    assert norm(HEADS[1:2]).tobytes() == norm(HEADS)[1:2].tobytes()
