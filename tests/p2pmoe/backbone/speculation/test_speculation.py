"""What a lane drafts by."""

from p2pmoe.backbone.speculation.drafts import DraftSource
from p2pmoe.backbone.speculation.ngram import NgramDraft
from p2pmoe.backbone.speculation.rounds import RoundPlan
from p2pmoe.backbone.speculation.speculation import Speculation
from tests.support.drafters import FixedChooser, ScriptedDraft


class Foreseeing(ScriptedDraft):
    """Foresees nothing, but could."""

    def foresee(self, wishes, drafts):
        return [{} for _ in wishes]


def test_drafters_are_found_by_what_they_do() -> None:
    ngram, model = NgramDraft(), ScriptedDraft(lambda wish: [])
    foreseeing = Foreseeing(lambda wish: [], source=DraftSource.SELF)
    own = Speculation(
        drafters=(model, ngram, foreseeing), chooser=FixedChooser(RoundPlan())
    )
    assert own.drafter(DraftSource.MODEL) is model
    assert own.drafter(DraftSource.MTP) is None
    assert own.matcher() is ngram
    assert own.foreseer() is foreseeing


def test_without_them_there_are_none() -> None:
    own = Speculation(drafters=(), chooser=FixedChooser(RoundPlan()))
    assert own.matcher() is None
    assert own.foreseer() is None
    assert own.counts.n_rounds == {}
