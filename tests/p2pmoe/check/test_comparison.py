"""Running a reference and comparing, with a model that is a table."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from p2pmoe.check.comparison import (
    CHUNK_TOKENS,
    Comparison,
    Produced,
    compare,
    produce,
)
from p2pmoe.check.reference import Reference
from p2pmoe.model.logits import Logits
from p2pmoe.model.step import SequencePart

N_VOCAB = 8


class TableModel:
    """After token t come the logits of row t; the ids count up."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, Logits]] = []
        self.capacity = 0

    def new_cache(self, n_tokens: int, *, limit: int | None = None) -> None:
        self.capacity = n_tokens

    def step(self, parts: Sequence[SequencePart], experts: object) -> list[np.ndarray]:
        return [
            self.forward(part.tokens, part.cache, experts, logits=part.logits)
            for part in parts
        ]

    def forward(
        self, tokens: Sequence[int], cache: None, experts: object, *, logits=Logits.LAST
    ) -> np.ndarray:
        assert experts == "experts"
        self.steps.append((len(tokens), logits))
        rows = [row_of(token) for token in tokens]
        return np.stack(rows if logits is Logits.ALL else rows[-1:])


def row_of(token: int) -> np.ndarray:
    row = np.arange(N_VOCAB, dtype=np.float32) / 16 + token
    row[(token + 1) % N_VOCAB] += 9
    return row


def stored(
    prompt: Sequence[int], rows: Sequence[int], greedy: Sequence[int] = ()
) -> Reference:
    return Reference(
        path=Path("r.npz"),
        prompt=tuple(prompt),
        rows=tuple(rows),
        logits=np.stack([row_of(prompt[row]) for row in rows]),
        greedy=tuple(greedy),
    )


@pytest.mark.parametrize("n", [1, 5, CHUNK_TOKENS, CHUNK_TOKENS + 1, 200])
def test_rows_are_kept_whatever_the_chunks(n):
    prompt = [at % N_VOCAB for at in range(n)]
    reference = stored(prompt, sorted({0, n // 2, n - 1}))
    produced = produce(TableModel(), "experts", reference)
    assert produced.logits.tobytes() == reference.logits.tobytes()
    assert produced.greedy == ()


def test_only_chunks_with_wanted_rows_give_all_logits():
    model = TableModel()
    prompt = [0] * (2 * CHUNK_TOKENS + 3)
    produce(model, "experts", stored(prompt, [CHUNK_TOKENS], [1, 2, 3]))
    assert model.steps == [
        (CHUNK_TOKENS, Logits.LAST),
        (CHUNK_TOKENS, Logits.ALL),
        (3, Logits.LAST),
        (1, Logits.LAST),
        (1, Logits.LAST),  # what follows the last id is not asked for
    ]
    assert model.capacity == len(prompt) + 3


def test_greedy_goes_on_after_the_prompt_and_tells_how_far_it_is():
    told: list[float] = []
    reference = stored([0, 1, 2], [2], [3, 4, 5])
    produced = produce(TableModel(), "experts", reference, told.append)
    assert produced.greedy == (3, 4, 5)
    assert told == [3 / 6, 4 / 6, 5 / 6, 1.0]


def test_the_largest_error_and_its_position_are_found():
    reference = stored([0, 1, 2, 3], [0, 3], [1, 2, 3])
    logits = reference.logits.copy()
    logits[0, 2] += np.float32(0.125)
    logits[1, 5] -= np.float32(0.25)
    found = compare(reference, Produced(logits=logits, greedy=(1, 7, 3)))
    assert found == Comparison(
        max_abs_error=0.25, worst_row=3, n_rows=2, n_greedy=3, n_greedy_equal=2
    )
    assert not found.holds(1.0)  # an id differs


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_the_largest_error(bad):
    reference = stored([0, 1], [0, 1])
    logits = reference.logits.copy()
    logits[0, 0] = bad
    found = compare(reference, Produced(logits=logits, greedy=()))
    assert (found.max_abs_error, found.worst_row) == (np.inf, 0)
    assert not found.holds(1e30)


def test_a_check_holds_up_to_its_tolerance():
    reference = stored([0, 1], [1])
    found = compare(reference, Produced(logits=reference.logits + 0.5, greedy=()))
    assert found.max_abs_error == 0.5
    assert found.holds(0.5)
    assert not found.holds(0.4)
