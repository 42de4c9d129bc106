import logging
from pathlib import Path

import pytest

from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from p2pmoe.backbone.speculation import model_draft
from p2pmoe.backbone.speculation.drafts import DraftSource, DraftWish
from p2pmoe.backbone.speculation.model_draft import (
    DraftModel,
    ModelDraft,
    open_draft,
)
from p2pmoe.model.kv_cache import KvCache
from p2pmoe.model.sampler import SamplingSettings
from p2pmoe.text.tokenizer import load_tokenizer
from p2pmoe.weights.model_file import open_model
from tests.support.shared import shared_path
from tests.support.tiny_model import TinyModel, tiny_model

GREEDY = SamplingSettings(temperature=0.0)
PROMPT = (5, 9, 2, 14, 3, 7)
POCKET = "models/pocket/pocket-q4_0.gguf"
PLENTY = 1 << 30


@pytest.fixture(scope="module")
def tiny() -> TinyModel:
    return tiny_model()


def drafter(tiny: TinyModel, most_bytes: int = PLENTY) -> ModelDraft:
    n_vocab = tiny.model.description.n_vocab
    own = DraftModel(model=tiny.model, experts=tiny.experts, n_vocab=n_vocab, n_bytes=0)
    return ModelDraft(own, most_bytes)


def wish(tokens, n=3, number=1, sampling=GREEDY) -> DraftWish:
    return DraftWish(
        number=number, tokens=tokens, cache=KvCache(1, ()), sampling=sampling, n=n
    )


def drafted(source: ModelDraft, *wishes: DraftWish) -> list[tuple[int, ...]]:
    drafting = source.begin(wishes)
    assert [draft.tokens for draft in drafting.drafts()] == [()] * len(wishes)
    while drafting.advance():
        pass
    drafts = drafting.drafts()
    assert all(draft.source is DraftSource.MODEL for draft in drafts)
    assert all(len(draft.tokens) == len(draft.chances) for draft in drafts)
    return [draft.tokens for draft in drafts]


def test_it_drafts_what_its_model_says(tiny) -> None:
    assert drafted(drafter(tiny), wish(PROMPT)) == [tuple(tiny.greedy(PROMPT, 3))]


def test_it_catches_up_and_forgets_what_was_refused(tiny) -> None:
    source = drafter(tiny)
    drafted(source, wish(PROMPT))
    for more in ((), (8,), (8, 8, 1), (4,), (4, 6, 6, 6, 6)):
        tokens = PROMPT[:4] + more
        assert drafted(source, wish(tokens)) == [tuple(tiny.greedy(tokens, 3))]
    assert drafted(source, wish(PROMPT[:1])) == [tuple(tiny.greedy(PROMPT[:1], 3))]


def test_a_long_prompt_is_caught_up_with_in_pieces(tiny, monkeypatch) -> None:
    monkeypatch.setattr(model_draft, "CATCH_UP", 4)
    tokens = PROMPT + PROMPT[:5]
    drafting = drafter(tiny).begin([wish(tokens)])
    for n_drafted in (0, 0, 1):  # four, four, and the last three
        assert drafting.advance()
        assert len(drafting.drafts()[0].tokens) == n_drafted
    while drafting.advance():
        pass
    assert drafting.drafts()[0].tokens == tuple(tiny.greedy(tokens, 3))


def test_sequences_of_a_batch_draft_as_alone(tiny) -> None:
    own = wish(PROMPT), wish(PROMPT[2:], 1, 2), wish(PROMPT[:3], 2, 3)
    together = drafted(drafter(tiny), *own)
    assert together == [drafted(drafter(tiny), one)[0] for one in own]


def test_memory_is_bounded_and_the_longest_idle_lose_theirs(tiny) -> None:
    source = drafter(tiny)
    drafted(source, wish(PROMPT))
    one = source.n_bytes
    assert one > 0
    source = drafter(tiny, 2 * one)
    for number in (1, 2, 3):
        assert len(drafted(source, wish(PROMPT, 3, number))[0]) == 3
        assert source.n_bytes <= 2 * one
    source.forget(3)
    assert source.n_bytes == one
    crowd = [wish(PROMPT, 3, number) for number in range(3)]
    assert [len(tokens) for tokens in drafted(source, *crowd)] == [3, 0, 3]
    assert drafted(drafter(tiny, one - 1), wish(PROMPT)) == [()]


def test_beyond_its_context_it_has_no_idea(tiny) -> None:
    tokens = tuple([1] * tiny.model.description.n_context)
    assert drafted(drafter(tiny), wish(tokens)) == [()]


def test_a_file_of_the_same_vocabulary_drafts(caplog) -> None:
    path = shared_path(POCKET)
    with open_model(path) as model_file:
        tokenizer = load_tokenizer(model_file)
    draft = open_draft(path, tokenizer, NumpyKernel(), PLENTY)
    assert draft is not None
    assert draft.n_vocab == tokenizer.n_vocab
    assert draft.n_bytes > 1 << 20
    assert [len(t) for t in drafted(ModelDraft(draft, PLENTY), wish(PROMPT, 1))] == [1]
    with caplog.at_level(logging.WARNING):
        assert open_draft(path, tokenizer, NumpyKernel(), 1 << 20) is None
    assert "there is room for 1048576" in caplog.text


def test_a_file_that_cannot_draft_is_told_and_left_out(tmp_path, caplog) -> None:
    with open_model(shared_path(POCKET)) as model_file:
        tokenizer = load_tokenizer(model_file)
    other = shared_path("models/tiny/minimax_m3/model-f32.gguf")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(40))
    with caplog.at_level(logging.WARNING):
        for path in (other, broken, tmp_path / "none.gguf", Path("a\0b")):
            assert open_draft(path, tokenizer, NumpyKernel(), PLENTY) is None
    assert len(caplog.records) == 4
