"""Who is right when several computed the same: by domains, never by numbers of keys.

Arithmetic is exact, so results are equal or one of them is wrong. A failure domain has
one vote, and none if its own devices differ; only domains with a device past probation
may vote against others. The backbone that lists the model is asked where it matters.

    all agree     two domains, or one and the backbone: all have passed. A domain that
                  agrees with nobody else has proved nothing.
    they differ   right is what two voices say, one of them a known domain's, and more
                  than say anything else. Who said otherwise is wrong for sure if two of
                  these domains are known no worse than itself; if it is one and the
                  backbone, the business with that backbone ends; else it is in doubt.
    one domain    where no two domains hold the expert the backbone's word decides, and
                  ends the business with that backbone alone. Of backbones that differ
                  (anybody can list a copy of a model, and lie) each vouches for who
                  agrees with it: a pass, and no proof of the replica.

Nobody is convicted by one domain, with a backbone or without: whoever makes a backbone
and one worker, for a model of its own, would have anybody refused who takes a lease of
it. A backbone against two known domains is the one that erred. Pure.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from relay.keys import PeerId

__all__ = ["Ruling", "Voice", "judge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Voice:
    """What one holder said. `is_known`: it is past probation."""

    peer: PeerId
    domain: str
    said: bytes
    is_known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What one expert's answers came to.

    wrong: confirmed by two domains. wrong_here: by a backbone's word, with one domain
    or alone. doubted: two results, and nobody can say which is right. erred: backbones
    that were wrong. vouched: passed by the word of one backbone against another's.
    """

    passed: tuple[PeerId, ...] = ()
    vouched: tuple[PeerId, ...] = ()
    wrong: tuple[PeerId, ...] = ()
    wrong_here: tuple[PeerId, ...] = ()
    doubted: tuple[PeerId, ...] = ()
    erred: tuple[PeerId, ...] = ()


MayConvict = Callable[[PeerId, PeerId], bool]


def judge(
    voices: Sequence[Voice],
    backbones: Mapping[PeerId, bytes],
    may_convict: MayConvict,
) -> Ruling:
    """Return what the answers for one expert and one seed say.

    Args:
        voices: what holders said.
        backbones: what those said that list the model.
        may_convict: whether the first key may convict the second.
    """
    said = {voice.said for voice in voices} | set(backbones.values())
    domains = {voice.domain for voice in voices}
    if len(said) <= 1:
        agree = len(domains) + (1 if backbones else 0) >= 2
        return Ruling(passed=_peers(voices) if agree else ())
    if len(domains) < 2:
        return _by_backbone(voices, backbones)
    right = _right(voices, backbones)
    if right is None:
        return _undecided(voices, backbones)
    return _against(right, voices, backbones, may_convict)


def _peers(voices: Sequence[Voice]) -> tuple[PeerId, ...]:
    return tuple(voice.peer for voice in voices)


def _by_backbone(voices: Sequence[Voice], backbones: Mapping[PeerId, bytes]) -> Ruling:
    words = set(backbones.values())
    if len(words) != 1:
        return _undecided(voices, backbones)
    (right,) = words
    return Ruling(
        passed=_peers([v for v in voices if v.said == right]),
        wrong_here=_peers([v for v in voices if v.said != right]),
    )


def _undecided(voices: Sequence[Voice], backbones: Mapping[PeerId, bytes]) -> Ruling:
    words = set(backbones.values())
    if len(words) < 2:
        return Ruling(doubted=_peers(voices))
    return Ruling(
        vouched=_peers([v for v in voices if v.said in words]),
        doubted=_peers([v for v in voices if v.said not in words]),
    )


def _known_domains(voices: Sequence[Voice]) -> dict[bytes, set[str]]:
    """Return by result the known domains that say it with one mouth."""
    mouths: dict[str, set[bytes]] = {}
    for voice in voices:
        mouths.setdefault(voice.domain, set()).add(voice.said)
    found: dict[bytes, set[str]] = {}
    for voice in voices:
        if voice.is_known and len(mouths[voice.domain]) == 1:
            found.setdefault(voice.said, set()).add(voice.domain)
    return found


def _right(voices: Sequence[Voice], backbones: Mapping[PeerId, bytes]) -> bytes | None:
    known = _known_domains(voices)
    words = set(backbones.values())
    word = next(iter(words)) if len(words) == 1 else None
    votes = {said: len(domains) for said, domains in known.items()}
    for said in votes:
        votes[said] += said == word
    ranked = sorted(votes.items(), key=lambda vote: -vote[1])
    if not ranked or ranked[0][1] < 2:
        return None
    is_tie = len(ranked) > 1 and ranked[1][1] == ranked[0][1]
    return None if is_tie else ranked[0][0]


def _against(
    right: bytes,
    voices: Sequence[Voice],
    backbones: Mapping[PeerId, bytes],
    may_convict: MayConvict,
) -> Ruling:
    known = _known_domains(voices)[right]
    judges = [v for v in voices if v.said == right and v.domain in known]
    has_backbone = right in backbones.values()
    wrong: list[PeerId] = []
    wrong_here: list[PeerId] = []
    doubted: list[PeerId] = []
    for voice in voices:
        if voice.said == right:
            continue
        able = {
            each.domain
            for each in judges
            if each.is_known and may_convict(each.peer, voice.peer)
        }
        n_able = len(able - {voice.domain})
        if n_able >= 2:
            wrong.append(voice.peer)
        else:
            is_here = n_able == 1 and has_backbone
            (wrong_here if is_here else doubted).append(voice.peer)
    erred = [peer for peer, said in backbones.items() if said != right]
    return Ruling(
        passed=_peers([v for v in voices if v.said == right]),
        wrong=tuple(wrong),
        wrong_here=tuple(wrong_here),
        doubted=tuple(doubted),
        erred=tuple(erred) if len(known) >= 2 else (),
    )
