"""Chunks of prompts under way at once: the same logits, and a link that is busy."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.backbone.prefill import Pipeline, cut_rows, even_rows
from p2pmoe.backbone.scheduling.composition import Demand, share_rows
from p2pmoe.model.logits import Logits
from p2pmoe.model.step import SequencePart
from p2pmoe.model.walk import Walk
from tests.support.distant_experts import Clock, DistantExperts, LinkSpeed
from tests.support.mini_models import write_mini
from tests.support.tiny_model import TinyModel, load_local

PROMPT = [5, 9, 2, 71, 33, 8, 4, 4, 90, 17, 6]
SIZES = [3, 1, 4, 3]


@pytest.fixture(scope="module")
def mini(tmp_path_factory) -> TinyModel:
    return load_local(write_mini(tmp_path_factory.mktemp("mini") / "m", "qwen3moe"))


def chunks() -> Iterator[tuple[int, int]]:
    """Yield where each chunk of the prompt begins, and its rows."""
    ends = itertools.accumulate(SIZES)
    return ((end - n, n) for end, n in zip(ends, SIZES, strict=True))


class Rig:
    """One prompt in chunks, over experts that answer when the clock says so."""

    def __init__(self, mini: TinyModel, delays, max_steps: int = 4) -> None:
        self.mini, self.clock = mini, Clock()
        self.cache = mini.model.new_cache(len(PROMPT))
        self.experts = DistantExperts(mini.experts, self.clock, delays)
        self.pipeline = Pipeline(
            chunks(),
            self.begin,
            max_steps=max_steps,
            monotonic=lambda: self.clock.now,
            bell=self.clock,
        )

    def begin(self, chunk: tuple[int, int]) -> Walk:
        first, n = chunk
        tokens = PROMPT[first : first + n]
        part = SequencePart(tokens, self.cache.view(first), Logits.ALL)
        return self.mini.model.walk([part], self.experts)

    def run(self) -> np.ndarray:
        found = []
        for (_, n), walk in self.pipeline.run():
            self.cache.advance(n)
            found += walk.logits
        return np.concatenate(found)


def one_step(mini: TinyModel) -> bytes:
    part = SequencePart(PROMPT, mini.model.new_cache(len(PROMPT)), Logits.ALL)
    return mini.model.step([part], mini.experts)[0].tobytes()


@given(
    delays=st.lists(st.integers(0, 9), min_size=8, max_size=8),
    max_steps=st.integers(1, 5),
)
def test_the_logits_are_those_of_one_step_whenever_workers_answer(
    mini: TinyModel, delays: list[int], max_steps: int
) -> None:
    delay = itertools.cycle(delays)
    rig = Rig(mini, lambda _: next(delay), max_steps)
    assert rig.run().tobytes() == one_step(mini)
    assert rig.cache.length == len(PROMPT)
    assert rig.pipeline.under_way == ()
    assert 1 <= rig.experts.most_under_way <= max_steps


def test_chunks_wait_together(mini: TinyModel) -> None:
    rig, alone = Rig(mini, lambda _: 1.0), Rig(mini, lambda _: 1.0, max_steps=1)
    for each in (rig, alone):
        assert each.run().tobytes() == one_step(mini)
    assert alone.clock.now == alone.pipeline.waited_s == 8.0  # 4 chunks, 2 layers
    assert rig.clock.now == rig.pipeline.waited_s == 2.0  # all four at once
    assert rig.experts.most_under_way == 4


def test_without_waits_there_is_one_chunk_at_a_time(mini: TinyModel) -> None:
    rig = Rig(mini, lambda _: 0.0)
    assert rig.run().tobytes() == one_step(mini)
    assert rig.experts.most_under_way == 1
    assert rig.pipeline.waited_s == 0.0


class Broken(Exception):
    """What a worker's side raises."""


def test_what_fails_is_named_and_the_rest_given_up(mini: TinyModel) -> None:
    rig = Rig(mini, lambda _: 1.0, max_steps=3)
    rig.experts.fails_at = 7, Broken()  # the second layer of the last chunk
    ended = []

    def run() -> None:
        for chunk, _ in rig.pipeline.run():
            ended.append(chunk)
            rig.cache.advance(chunk[1])

    with pytest.raises(Broken):
        run()
    assert ended == [(0, 3), (3, 1), (4, 4)]
    assert rig.pipeline.at == (8, 3)
    assert rig.pipeline.under_way == ((8, 3),)
    rig.pipeline.close()
    assert rig.pipeline.under_way == ()
    assert rig.experts.n_under_way == 0  # given back
    assert list(rig.pipeline.run()) == []
    # What had ended counts: the rest goes on from there.
    part = SequencePart(PROMPT[8:], rig.cache, Logits.ALL)
    rest = mini.model.step([part], mini.experts)[0]
    assert rest.tobytes() == one_step(mini)[8 * rest.shape[1] * 4 :]


def test_what_waits_is_given_up_with_what_fails(mini: TinyModel) -> None:
    rig = Rig(mini, lambda _: 1.0)
    rig.experts.fails_at = 5, Broken()  # the second layer of the second chunk
    with pytest.raises(Broken):
        rig.run()
    assert rig.pipeline.under_way == tuple(chunks())
    rig.pipeline.close()
    assert (rig.experts.n_under_way, rig.cache.length) == (0, 0)


def test_no_chunk_begins_once_they_run_dry(mini: TinyModel) -> None:
    rig = Rig(mini, lambda _: 1.0)
    rig.pipeline._chunks = itertools.islice(chunks(), 2)
    assert rig.run().shape[0] == 4
    assert rig.cache.length == 4


@given(
    wanted=st.lists(st.integers(0, 40), min_size=1, max_size=5),
    chunk_rows=st.integers(1, 16),
)
def test_rows_are_cut_as_one_step_would_follow_another(
    wanted: list[int], chunk_rows: int
) -> None:
    cut = cut_rows(wanted, chunk_rows)
    assert [sum(chunk[i] for chunk in cut) for i in range(len(wanted))] == wanted
    assert all(sum(chunk) > 0 for chunk in cut)
    assert all(sum(chunk) <= chunk_rows for chunk in cut)
    if cut:
        asked = [i for i, n in enumerate(wanted) if n]
        first = share_rows(
            [Demand(wanted[i]) for i in asked],
            chunk_rows=chunk_rows,
            max_rows=chunk_rows,
        )
        assert [cut[0][i] for i in asked] == first


@given(n=st.integers(1, 3000), chunk_rows=st.integers(1, 80), steps=st.integers(1, 5))
def test_no_chunk_is_left_over(n: int, chunk_rows: int, steps: int) -> None:
    own = even_rows(n, chunk_rows=chunk_rows, max_steps=steps)
    n_chunks = len(cut_rows([n], own))
    assert 1 <= own <= chunk_rows
    assert n_chunks <= -(-n // (chunk_rows * steps)) * steps  # as few groups as can be


def test_chunks_are_of_one_size() -> None:
    assert even_rows(1400, chunk_rows=64, max_steps=3) == 59  # 24 of them, not 21 and 1
    assert even_rows(192, chunk_rows=64, max_steps=3) == 64
    assert even_rows(65, chunk_rows=64, max_steps=3) == 22
    assert even_rows(0, chunk_rows=64, max_steps=3) == 64


OFFICE = {"up_bytes_s": 6.1e6, "down_bytes_s": 11.2e6}  # design 00, "office link"


@pytest.mark.parametrize("rtt_s", [0.0034, 0.1])
def test_a_long_prompt_keeps_a_slow_link_busy(rtt_s: float) -> None:
    speed = LinkSpeed(rtt_s=rtt_s, **OFFICE)
    assert speed.share_used(1) < 0.65
    assert speed.share_used(3) >= 0.95


def test_rows_are_sent_before_experts_at_hand_are_computed(mini: TinyModel) -> None:
    rig, asked = Rig(mini, lambda _: 1.0, max_steps=2), []
    begin = rig.experts.begin

    def noted(layer, hidden, routing):
        pending = begin(layer, hidden, routing)
        pending.compute = lambda: asked.append("computed")
        asked.append(layer)
        return pending

    rig.experts.begin = noted
    assert rig.run().tobytes() == one_step(mini)
    assert asked[:4] == [0, 0, "computed", "computed"]
