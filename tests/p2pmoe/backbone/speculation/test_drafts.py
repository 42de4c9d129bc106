from p2pmoe.backbone.speculation.drafts import Draft, DraftSource


def test_a_draft_without_an_idea_is_empty() -> None:
    draft = Draft(source=DraftSource.NGRAM)
    assert (draft.tokens, draft.chances, dict(draft.foreseen)) == ((), (), {})
