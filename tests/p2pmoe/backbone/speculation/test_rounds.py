from p2pmoe.backbone.speculation.rounds import RoundPlan


def test_a_round_decodes_plainly_if_nobody_chooses() -> None:
    plan = RoundPlan()
    assert (plan.source, plan.n_drafts, plan.prefetch) == (None, 0, False)
