"""A small model of the same vocabulary drafts, with all of its weights in memory.

`open_draft` opens and checks the file once for all lanes; a file that cannot draft here
is told once and there is no such drafter: it never keeps the model from being served.
`ModelDraft` is one lane's. It keeps keys and values of its own for each sequence,
catches up with what was committed since, `CATCH_UP` tokens a step, and cuts back to
what is still so where drafts were refused. Caches together take at most the bytes
given: who drafted longest ago loses its own, and who finds no room drafts nothing.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mobile_worker.arithmetic.errors import FormatUnsupported
from mobile_worker.arithmetic.kernel import Kernel
from p2pmoe.backbone.speculation.drafts import Draft, DraftSource, DraftWish
from p2pmoe.backbone.speculation.growth import Growth
from p2pmoe.model.errors import ModelRefused
from p2pmoe.model.kv_cache import KvCache
from p2pmoe.model.local_experts import LocalExperts
from p2pmoe.model.logits import Logits
from p2pmoe.model.model import Model, load_model
from p2pmoe.model.step import SequencePart
from p2pmoe.text.errors import TokenizerError
from p2pmoe.text.tokenizer import Tokenizer, load_tokenizer
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.model_file import ModelFile, open_model

__all__ = ["CATCH_UP", "DraftModel", "ModelDraft", "ModelDrafting", "open_draft"]

log = logging.getLogger("p2pmoe.speculation")

CATCH_UP: Final = 256  # tokens in one step of a sequence that is behind
_BLOCK: Final = 256  # positions that a cache grows by


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DraftModel:
    """A draft model that is loaded; `n_bytes` are its weights'.

    It draws from the first `n_vocab` tokens, which are those of the model it helps.
    """

    model: Model
    experts: LocalExperts
    n_vocab: int
    n_bytes: int


def open_draft(
    path: Path, tokenizer: Tokenizer, kernel: Kernel, most_bytes: int
) -> DraftModel | None:
    """Open a model file to draft for another; None, with a warning, if it cannot.

    `tokenizer` is the other's: both must have the same tokens. Weights of more than
    `most_bytes` are not loaded. All of them are read before it returns.
    """
    if "\0" in str(path):
        log.warning("--draft %r is not used: it is no path", str(path))
        return None
    try:
        with open_model(path) as model_file:
            return _loaded(model_file, tokenizer, kernel, most_bytes)
    except (ModelFileError, ModelRefused, TokenizerError, FormatUnsupported) as error:
        log.warning("--draft %s is not used: %s", path, error)
        return None


def _loaded(
    model_file: ModelFile, tokenizer: Tokenizer, kernel: Kernel, most_bytes: int
) -> DraftModel:
    n_bytes = sum(tensor.n_bytes for tensor in model_file.tensors.values())
    if n_bytes > most_bytes:
        raise ModelRefused(
            f"it takes {n_bytes} bytes, and there is room for {most_bytes}; with more "
            "--ram it has room"
        )
    theirs, ours = load_tokenizer(model_file).vocabulary, tokenizer.vocabulary
    if theirs.texts != ours.texts or theirs.kinds != ours.kinds:
        raise ModelRefused(
            f"its vocabulary of {len(theirs.texts)} tokens is not the model's of "
            f"{len(ours.texts)}"
        )
    model = load_model(model_file, kernel)
    for promise in model_file.unread():
        promise.read()
    experts = LocalExperts.load(model_file, kernel)
    for layer in model.description.moe_layers:  # read-only from here on, for all lanes
        experts.layer(layer, range(model.description.n_expert))
    n_vocab = min(len(ours.texts), model.description.n_vocab)
    return DraftModel(model=model, experts=experts, n_vocab=n_vocab, n_bytes=n_bytes)


@dataclass(slots=True, eq=False)
class _Kept:
    """What was run of a sequence: its first `cache.length` tokens."""

    cache: KvCache
    tokens: list[int]


class ModelDraft:
    """A `Drafter` with a model of its own; for one lane."""

    source = DraftSource.MODEL

    def __init__(self, draft: DraftModel, most_bytes: int) -> None:
        """Draft with a model; caches take at most `most_bytes` in all."""
        self.draft = draft
        self._most_bytes = most_bytes
        self._kept: dict[int, _Kept] = {}  # by sequence, who drafted longest ago first

    @property
    def n_bytes(self) -> int:
        """Memory that caches take."""
        return sum(kept.cache.n_bytes for kept in self._kept.values())

    def begin(self, wishes: Sequence[DraftWish]) -> "ModelDrafting":
        """Begin; nothing is run before `advance`."""
        return ModelDrafting(self, wishes)

    def forget(self, number: int) -> None:
        """Drop a sequence's keys and values."""
        self._kept.pop(number, None)

    def keep(self, wish: DraftWish, beside: Sequence[int]) -> _Kept | None:
        """Return a sequence's cache with room for its wish; None: there is no room.

        It holds tokens that are still so, and not the last one. The caches of the
        sequences `beside` stay.
        """
        kept = self._kept.pop(wish.number, None)
        room = -(-(len(wish.tokens) + wish.n) // _BLOCK) * _BLOCK
        room = min(room, self.draft.model.description.n_context)
        if len(wish.tokens) + wish.n > room:
            return None
        own_bytes = room * self.draft.model.description.kv_bytes_per_token
        if not self._make_room(own_bytes, beside):
            return None
        if kept is None:
            limit = self.draft.model.description.n_context
            kept = _Kept(self.draft.model.new_cache(room, limit=limit), [])
        kept.cache.grow(room)
        n = min(_n_common(kept.tokens, wish.tokens), len(wish.tokens) - 1)
        kept.cache.truncate(n)
        del kept.tokens[n:]
        self._kept[wish.number] = kept
        return kept

    def _make_room(self, n_bytes: int, beside: Sequence[int]) -> bool:
        for number in [number for number in self._kept if number not in beside]:
            if self.n_bytes + n_bytes <= self._most_bytes:
                break
            del self._kept[number]
        return self.n_bytes + n_bytes <= self._most_bytes


class ModelDrafting:
    """Drafting under way for some sequences."""

    def __init__(self, drafter: ModelDraft, wishes: Sequence[DraftWish]) -> None:
        """Hold wishes; caches are taken by the first `advance`."""
        self._drafter = drafter
        self._wishes = wishes
        self._growing: list[_Growing] | None = None

    def advance(self) -> bool:
        """Draft one more token of each sequence that wants one; False if none does.

        A sequence that is behind runs `CATCH_UP` tokens of it instead. Raises what the
        model raises.
        """
        if self._growing is None:
            self._growing = self._begun()
        active = [each for each in self._growing if each.wants_more]
        if not active:
            return False
        draft = self._drafter.draft
        parts = [each.part() for each in active]
        logits = draft.model.step(parts, draft.experts)
        for each, part, own in zip(active, parts, logits, strict=True):
            each.ran(part.tokens)
            if len(own):
                each.growth.draw(own[-1][: draft.n_vocab])
        return True

    def drafts(self) -> list[Draft]:
        """Return what was drafted so far, one for each wish."""
        if self._growing is None:
            return [Draft(source=DraftSource.MODEL) for _ in self._wishes]
        return [each.growth.draft(DraftSource.MODEL) for each in self._growing]

    def _begun(self) -> list["_Growing"]:
        numbers = [wish.number for wish in self._wishes]
        return [_Growing(w, self._drafter.keep(w, numbers)) for w in self._wishes]


class _Growing:
    """One sequence's draft, and what is still to be run for it."""

    def __init__(self, wish: DraftWish, kept: _Kept | None) -> None:
        self._kept = kept
        self._behind = [] if kept is None else list(wish.tokens[kept.cache.length : -1])
        self.growth = Growth(wish, 0 if kept is None else wish.n)

    @property
    def wants_more(self) -> bool:
        return self.growth.wants_more

    def part(self) -> SequencePart:
        """Return what is run next."""
        if self._kept is None:
            raise ValueError("a sequence without a cache drafts")
        if len(self._behind) >= CATCH_UP:
            chunk, wanted = self._behind[:CATCH_UP], Logits.NONE
        else:
            chunk, wanted = [*self._behind, *self.growth.last], Logits.LAST
        return SequencePart(chunk, self._kept.cache, wanted)

    def ran(self, tokens: Sequence[int]) -> None:
        """Note what was run."""
        if self._kept is not None:
            self._kept.tokens.extend(tokens)
        del self._behind[: len(tokens)]


def _n_common(first: Sequence[int], second: Sequence[int]) -> int:
    """Return how many tokens both begin with."""
    n = min(len(first), len(second))
    if list(first[:n]) == list(second[:n]):
        return n
    return next(i for i in range(n) if first[i] != second[i])
