import numpy as np

from p2pmoe.backbone.speculation.drafts import DraftSource, DraftWish
from p2pmoe.backbone.speculation.mtp import MtpDraft
from p2pmoe.model.kv_cache import KvCache
from p2pmoe.model.sampler import SamplingSettings


class Counting:
    """Heads that say: one more than the token before."""

    n_heads = 2

    def __init__(self) -> None:
        self.n_runs = 0
        self.forgotten: list[int] = []

    def logits(self, wishes, drawn):
        self.n_runs += 1
        assert len(wishes) == len(drawn)
        return [np.eye(9, dtype=np.float32)[token + 1] for token in drawn]

    def forget(self, number: int) -> None:
        self.forgotten.append(number)


def wish(tokens, n) -> DraftWish:
    return DraftWish(
        number=1,
        tokens=tokens,
        cache=KvCache(1, ()),
        sampling=SamplingSettings(temperature=0.0),
        n=n,
    )


def test_it_drafts_as_many_tokens_as_there_are_heads() -> None:
    heads = Counting()
    drafter = MtpDraft(heads)
    drafting = drafter.begin([wish((3,), 4), wish((1, 5), 1)])
    assert heads.n_runs == 0
    while drafting.advance():
        pass
    first, second = drafting.drafts()
    assert (first.tokens, second.tokens) == ((4, 5), (6,))
    assert first.source is drafter.source is DraftSource.MTP
    assert len(first.chances) == 2
    assert heads.n_runs == 2
    drafter.forget(1)
    assert heads.forgotten == [1]
