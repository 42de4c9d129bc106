"""The draft model's memory comes out of the experts'."""

from pathlib import Path

import pytest

from p2pmoe.backbone.local_side import LocalSide
from p2pmoe.backbone.speculation.draft_file import open_draft_file
from p2pmoe.backbone.speculation.drafts import DraftSource
from p2pmoe.speculating import SpeculationWish
from p2pmoe.text.tokenizer import load_tokenizer
from tests.support.backbone_model import POCKET, local_side, model_of

TOKENIZER = load_tokenizer(model_of(POCKET))
WISH = SpeculationWish(draft=POCKET)  # the model drafts for itself, as a whole


def side(ram_bytes: int | None = None) -> LocalSide:
    return local_side(POCKET, ram_bytes=ram_bytes, n_lanes=2)


def test_nothing_is_opened_unless_it_is_wished() -> None:
    assert open_draft_file(SpeculationWish(), side(), TOKENIZER) is None


def test_without_a_bound_it_is_loaded() -> None:
    draft = open_draft_file(WISH, side(), TOKENIZER)
    assert draft is not None
    assert draft.drafter().source is DraftSource.MODEL
    assert draft.cache_bytes > 0


def test_with_ram_the_experts_have_as_much_less() -> None:
    local = side(42 << 20)
    before = local.hot.budget_bytes = 80 << 20
    draft = open_draft_file(WISH, local, TOKENIZER)
    assert draft is not None
    taken = draft.model.n_bytes + 2 * draft.cache_bytes
    assert local.hot.budget_bytes == before - taken >= before // 2


def test_what_the_experts_leave_free_is_taken_first() -> None:
    local = side(200 << 20)
    before = local.hot.budget_bytes
    assert before == sum(local.hot.sizes.values())
    draft = open_draft_file(WISH, local, TOKENIZER)
    assert draft is not None
    assert draft.model.n_bytes > before // 2
    assert local.hot.budget_bytes == before


def test_what_has_no_room_is_told_and_takes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    local = side(42 << 20)
    before = local.hot.budget_bytes = 1 << 20
    assert open_draft_file(WISH, local, TOKENIZER) is None
    assert "there is room for" in caplog.text
    assert local.hot.budget_bytes == before


def test_a_file_that_is_none_is_told(caplog: pytest.LogCaptureFixture) -> None:
    wish = SpeculationWish(draft=Path("/nonexistent.gguf"))
    assert open_draft_file(wish, side(), TOKENIZER) is None
    assert "--draft /nonexistent.gguf is not used" in caplog.text
