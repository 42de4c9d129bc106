import dataclasses
from collections.abc import Mapping

import pytest

from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from p2pmoe.backbone.speculation.drafts import Draft, DraftWish
from p2pmoe.backbone.speculation.self_draft import SelfDraft
from p2pmoe.model.kv_cache import KvCache
from p2pmoe.model.logits import Logits
from p2pmoe.model.sampler import SamplingSettings, sample
from tests.support.tiny_model import TinyModel, tiny_model

GREEDY = SamplingSettings(temperature=0.0)
PROMPT = (5, 9, 2, 14, 3, 7)


class AtHand:
    """The first experts of each layer, `n` of them."""

    def __init__(self, tiny: TinyModel, n: int) -> None:
        own = tiny.experts
        self._layers: dict[int, Mapping[int, ExpertWeights]] = {
            layer: {i: own.layer(layer, range(n))[i] for i in range(n)}
            for layer in tiny.model.description.moe_layers
        }

    def __call__(self, layer: int) -> Mapping[int, ExpertWeights]:
        return self._layers[layer]


@pytest.fixture(scope="module")
def tiny() -> TinyModel:
    return tiny_model()


def drafter(tiny: TinyModel, n: int) -> SelfDraft:
    return SelfDraft(
        tiny.model,
        AtHand(tiny, n),
        kernel=NumpyKernel(),
        profile=tiny.experts.profile,
    )


def wish(
    tiny: TinyModel, tokens: tuple[int, ...], sampling=GREEDY, n=4, room=16
) -> DraftWish:
    cache = tiny.model.new_cache(room)
    tiny.run(tokens[:-1], cache, Logits.NONE)
    return DraftWish(number=1, tokens=tokens, cache=cache, sampling=sampling, n=n)


def drafted(source: SelfDraft, *wishes: DraftWish) -> list[Draft]:
    drafting = source.begin(wishes)
    while drafting.advance():
        pass
    return drafting.drafts()


def decoded(tiny: TinyModel, sampling: SamplingSettings, n: int) -> tuple[int, ...]:
    cache, tokens = tiny.model.new_cache(16), list(PROMPT)
    logits = tiny.run(tokens, cache, Logits.LAST)
    for _ in range(n):
        tokens.append(sample(logits[-1], sampling, tokens, len(tokens)))
        logits = tiny.run(tokens[-1:], cache)
    return tuple(tokens[len(PROMPT) :])


@pytest.mark.parametrize("sampling", [GREEDY, SamplingSettings(seed=3)])
def test_with_all_experts_it_drafts_what_the_model_says(tiny, sampling) -> None:
    source = drafter(tiny, tiny.model.description.n_expert)
    [draft] = drafted(source, wish(tiny, PROMPT, sampling))
    assert draft.tokens == decoded(tiny, sampling, 4)
    assert not any(draft.foreseen.values())


@pytest.mark.parametrize("n", [0, 1, 2])
def test_with_few_experts_it_drafts_with_them(tiny, n) -> None:
    source, asked = drafter(tiny, n), wish(tiny, PROMPT)
    [draft] = drafted(source, asked)
    assert len(draft.tokens) == len(draft.chances) == 4
    assert all(0.0 < chance <= 1.0 for chance in draft.chances)
    assert asked.cache.length == len(PROMPT) - 1
    assert set(draft.foreseen) == set(tiny.model.description.moe_layers)
    for experts in draft.foreseen.values():
        assert len(set(experts)) == len(experts) > 0
        assert min(experts) >= n


def test_sequences_of_a_batch_draft_what_they_draft_alone(tiny) -> None:
    source = drafter(tiny, 2)
    own = [wish(tiny, PROMPT, n=3), wish(tiny, PROMPT[2:], n=1)]
    together = drafted(source, *own)
    for asked, draft in zip(own, together, strict=True):
        [alone] = drafted(source, asked)
        assert (alone.tokens, alone.chances) == (draft.tokens, draft.chances)
        assert dict(alone.foreseen) == dict(draft.foreseen)


def test_a_draft_ends_where_the_cache_ends(tiny) -> None:
    [draft] = drafted(drafter(tiny, 2), wish(tiny, PROMPT, n=9, room=7))
    assert len(draft.tokens) == 2


def test_verification_writes_over_what_was_drafted(tiny) -> None:
    asked = wish(tiny, PROMPT)
    plain = KvCache.copy_prefix(asked.cache, len(PROMPT) - 1, 16)
    drafted(drafter(tiny, 1), asked)
    after = tiny.run(PROMPT[-1:], asked.cache)
    assert after.tobytes() == tiny.run(PROMPT[-1:], plain).tobytes()


def test_it_foresees_for_others_what_it_foresees_for_itself(tiny) -> None:
    source, asked = drafter(tiny, 2), wish(tiny, PROMPT)
    [draft] = drafted(source, asked)
    other = wish(tiny, PROMPT[:3])
    wishes, tokens = [other, asked], [(), draft.tokens[:-1]]
    short, own = source.foresee(wishes, tokens)
    assert own == dict(draft.foreseen)
    assert set(short) == set(own)
    assert [part.cache.length for part in wishes] == [2, len(PROMPT) - 1]


def test_it_foresees_no_more_than_there_is_room_for(tiny) -> None:
    asked = wish(tiny, PROMPT, room=7)
    [found] = drafter(tiny, 2).foresee([asked], [(1, 2, 3, 4)])
    assert set(found) == set(tiny.model.description.moe_layers)


def test_a_draft_ends_where_it_becomes_too_unlikely(tiny) -> None:
    source, asked = drafter(tiny, 2), wish(tiny, PROMPT)
    [draft] = drafted(source, asked)
    floor = draft.chances[0] * draft.chances[1]
    [short] = drafted(source, dataclasses.replace(asked, floor=floor))
    assert short.tokens == draft.tokens[:2]
