"""How a model turns its heads: the one place where the units of rope metadata are read.

`read_rope` makes `RopeSettings` of a file's keys, all below `{architecture}.rope.`.
What the keys mean has changed over the years; this is how they are taken here, after
llama.cpp's converter and loader (conversion/base.py, src/llama-model.cpp,
src/llama-context.cpp, its pull requests 2268, 15539 and 17945) and, where the two do
not agree, after what publishers run (transformers, modeling_rope_utils.py):

    freq_base                 10000 if absent
    scaling.type              none, linear, yarn, longrope; if absent, linear
    scaling.factor            at least 1, of positions: f = 4 turns position 8 like 2.
                              0 is no scaling. Older files: `scale_linear`. YaRN's, if
                              absent, is context length by original length
    scaling.original_context_length
                              of the training before it was scaled; if absent,
                              context_length is taken to be that
    scaling.yarn_beta_fast, yarn_beta_slow, yarn_ext_factor
                              32, 1 and 1 if absent; a negative ext factor is absent
    scaling.yarn_log_multiplier
                              the publisher's mscale_all_dim; in deepseek2 files a tenth
                              of it, since converters once multiplied it into 0.1 ln f.
                              Above 0.5 (mscale_all_dim 5, which no model has) it is
                              taken as whole there, too
    scaling.yarn_attn_factor  the publisher's attention_factor: the whole magnitude
    scaling.attn_factor       longrope: the whole magnitude. YaRN: a further factor,
                              unless it equals YaRN's own magnitude, which some
                              converters have written here
    scaling.finetuned         says nothing about the arithmetic
    scaling.alpha, freq_base_swa
                              further rules that no architecture here has: refused

and of the tensors `rope_freqs.weight` (divides each pair's frequency, as in Llama 3)
and `rope_factors_long.weight`, `rope_factors_short.weight` (the same, for contexts
above or up to the original length; chosen once, because a cached key is never turned
again).

Magnitude. Cosines and sines are multiplied by it: with m(f, s) = 1 + 0.1 s ln f, YaRN's
is m(f, 1); with an mscale_all_dim A it is m(f, 1) / m(f, A), in deepseek2 files 1
(they do not carry mscale; in every such model it equals A). Latent attention multiplies
its scores by m(f, A)^2 instead: `score_factor`. Longrope's is sqrt(1 + ln s / ln n) for
s times the original length n.

Context. `usable_context` is how far the model may be run: context_length, or original
length times factor if that is more (files give the length before scaling, or after).
"""

import math
from dataclasses import dataclass, replace
from enum import Enum, unique
from typing import Final

import numpy as np
import numpy.typing as npt

from p2pmoe.model.errors import ModelRefused
from p2pmoe.model.metadata_keys import MAX_CONTEXT
from p2pmoe.model.tensors import read_floats
from p2pmoe.weights.model_file import ModelFile
from p2pmoe.weights.model_header import ModelHeader

__all__ = ["RopeScaling", "RopeSettings", "YarnRamp", "read_rope", "usable_context"]

_MAX_BASE: Final = 1e12
_MAX_FACTOR: Final = 65536.0
_MAX_BETA: Final = 65536.0
_MAX_MAGNITUDE: Final = 16.0
_MAX_ROTATED: Final = 1024  # four times any model's; sizes the first tables
_LEGACY_TENTH: Final = "deepseek2"
_LEAST_WHOLE_MSCALE: Final = 0.5


@unique
class RopeScaling(Enum):
    """How positions beyond the original length are reached; GGUF's words."""

    NONE = "none"
    LINEAR = "linear"
    YARN = "yarn"
    LONGROPE = "longrope"


@dataclass(frozen=True, slots=True, kw_only=True)
class YarnRamp:
    """Which pairs YaRN leaves as they are: those that turn often (arXiv 2309.00071).

    A pair that turns more than `beta_fast` times over the original length is left, one
    that turns less than `beta_slow` times is interpolated, between them it is blended.
    """

    n_original: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True  # borders are whole pairs; gpt-oss: not
    strength: float = 1.0  # of what is left; "ext factor"

    def left(self, n_rotated: int, base: float) -> npt.NDArray[np.float64]:
        """Return which share of each pair's own frequency is left, [n_rotated / 2]."""
        low = self._border(self.beta_fast, n_rotated, base)
        high = self._border(self.beta_slow, n_rotated, base)
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0.0), min(high, n_rotated - 1.0)
        pairs = np.arange(n_rotated // 2, dtype=np.float64)
        ramp = np.clip((pairs - low) / max(high - low, 0.001), 0.0, 1.0)
        return (1.0 - ramp) * self.strength

    def _border(self, n_turns: float, n_rotated: int, base: float) -> float:
        """Return the pair, not whole, that turns `n_turns` times."""
        length = self.n_original / (n_turns * 2.0 * math.pi)
        return n_rotated * math.log(length) / (2.0 * math.log(base))


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeSettings:
    """What `Rope` needs, all units resolved."""

    n_rotated: int  # values of a head that are turned, the first ones
    base: float
    interleaved: bool  # pairs (2i, 2i + 1), else (i, i + n_rotated / 2)
    factor: float = 1.0  # interpolated frequencies are divided by it
    ramp: YarnRamp | None = None  # None: all are interpolated
    divisors: tuple[float, ...] | None = None  # of each pair's own frequency
    magnitude: float = 1.0  # of cosines and sines
    score_factor: float = 1.0  # of latent attention's scores

    def frequencies(self) -> npt.NDArray[np.float64]:
        """Return each pair's angle per position, f64 [n_rotated / 2]."""
        exponents = np.arange(0, self.n_rotated, 2, dtype=np.float64) / self.n_rotated
        own = self.base**-exponents
        if self.divisors is not None:
            own /= np.array(self.divisors)
        if self.factor == 1.0:
            return own
        left = 0.0 if self.ramp is None else self.ramp.left(self.n_rotated, self.base)
        return own / self.factor * (1.0 - left) + own * left


def read_rope(
    model_file: ModelFile,
    *,
    n_rotated: int,
    interleaved: bool,
    truncate: bool = True,
    n_context: int | None = None,
) -> RopeSettings:
    """Read a file's rotary embedding; see the module's text for every unit.

    Args:
        model_file: The file; keys are those of its own architecture.
        n_rotated: Values of a head that are turned; the architecture knows.
        interleaved: Whether pairs are neighbours; the architecture knows.
        truncate: Whether YaRN's ramp begins and ends at whole pairs.
        n_context: The longest context that will be run, if not the model's own; it
            chooses between a long-rope model's two sets of factors.

    Raises:
        ModelFileError: A key is of another type or out of bounds.
        ModelRefused: A number is absurd, or the kind of scaling is unknown here.
    """
    if n_rotated % 2 or not 2 <= n_rotated <= _MAX_ROTATED:
        raise ModelRefused(f"rotary over {n_rotated} values")
    keys = _RopeKeys(model_file)
    settings = keys.settings(n_rotated, interleaved, truncate)
    name = "rope_freqs.weight"
    if name not in model_file.tensors:
        is_long = (n_context or keys.usable_context()) > keys.n_original()
        name = f"rope_factors_{'long' if is_long else 'short'}.weight"
    if name not in model_file.tensors:
        return settings
    divisors = _read_divisors(model_file, name, n_rotated // 2)
    return replace(settings, divisors=divisors)


def usable_context(header: ModelHeader) -> int:
    """Return how many positions a model may be run for.

    Raises:
        ModelFileError: A key is of another type or out of bounds.
        ModelRefused: The kind of scaling is unknown here, or its factor absurd.
    """
    return _RopeKeys(header).usable_context()


class _RopeKeys:
    """Reads one file's keys with bounds."""

    def __init__(self, header: ModelHeader) -> None:
        self._metadata = header.metadata
        self._architecture = header.metadata.text("general.architecture")
        self._n_context = header.metadata.integer(
            f"{self._architecture}.context_length", low=1, high=MAX_CONTEXT
        )

    def settings(
        self, n_rotated: int, interleaved: bool, truncate: bool
    ) -> RopeSettings:
        """Return everything but the divisors, which are tensors."""
        self._refuse_further_rules()
        kind, factor = self._scaling()
        ramp = self._ramp(truncate) if kind is RopeScaling.YARN else None
        mscale_all_dim = self._mscale_all_dim() if ramp is not None else 0.0
        return RopeSettings(
            n_rotated=n_rotated,
            base=self._real("freq_base", 10000.0, 1.0, _MAX_BASE),
            interleaved=interleaved,
            factor=factor,
            ramp=ramp,
            magnitude=self._magnitude(kind, factor, ramp, mscale_all_dim),
            score_factor=_mscale(factor, mscale_all_dim) ** 2,
        )

    def n_original(self) -> int:
        """Return the context length of the training before it was scaled."""
        return self._metadata.integer(
            self._key("scaling.original_context_length"),
            self._n_context,
            low=1,
            high=MAX_CONTEXT,
        )

    def usable_context(self) -> int:
        """Return how many positions the model may be run for."""
        if self._key("scaling.original_context_length") not in self._metadata:
            return self._n_context
        scaled = min(int(self.n_original() * self._scaling()[1]), MAX_CONTEXT)
        return max(self._n_context, scaled)

    def _scaling(self) -> tuple[RopeScaling, float]:
        """Return the kind and the factor, 1 where positions are not scaled."""
        word = self._metadata.text(self._key("scaling.type"), "linear")
        if word not in {kind.value for kind in RopeScaling}:
            raise ModelRefused(f"rope.scaling.type {word[:40]!r} is unknown here")
        kind = RopeScaling(word)
        unsaid = self._real("scale_linear", 0.0, -1.0, _MAX_FACTOR)
        if kind is RopeScaling.YARN and unsaid == 0.0:
            unsaid = max(1.0, self._n_context / self.n_original())
        factor = self._real("scaling.factor", unsaid, -1.0, _MAX_FACTOR)
        if kind in (RopeScaling.NONE, RopeScaling.LONGROPE) or factor == 0.0:
            return kind, 1.0
        if not factor >= 1.0:
            raise ModelRefused(
                f"rope.scaling.factor {factor} is below 1; it divides positions"
            )
        return kind, factor

    def _ramp(self, truncate: bool) -> YarnRamp:
        fast = self._real("scaling.yarn_beta_fast", 32.0, 0.0, _MAX_BETA)
        slow = self._real("scaling.yarn_beta_slow", 1.0, 0.0, _MAX_BETA)
        if fast < slow:  # they are equal in Kimi-K2
            raise ModelRefused(f"YaRN's beta_fast {fast} is below beta_slow {slow}")
        strength = self._real("scaling.yarn_ext_factor", 1.0, -_MAX_FACTOR, 1.0)
        return YarnRamp(
            n_original=self.n_original(),
            beta_fast=fast,
            beta_slow=slow,
            truncate=truncate,
            strength=1.0 if strength < 0.0 else strength,
        )

    def _mscale_all_dim(self) -> float:
        value = self._real("scaling.yarn_log_multiplier", 0.0, -0.001, _MAX_MAGNITUDE)
        if self._architecture == _LEGACY_TENTH and value <= _LEAST_WHOLE_MSCALE:
            return value / 0.1
        return value

    def _magnitude(
        self,
        kind: RopeScaling,
        factor: float,
        ramp: YarnRamp | None,
        mscale_all_dim: float,
    ) -> float:
        given = self._real("scaling.attn_factor", 0.0, -0.001, _MAX_MAGNITUDE)
        if kind is RopeScaling.LONGROPE:
            return given or self._long_magnitude()
        whole = self._real("scaling.yarn_attn_factor", 0.0, -0.001, _MAX_MAGNITUDE)
        if ramp is None:
            return given or 1.0
        own = _mscale(factor, 1.0) if ramp.strength else 1.0
        if mscale_all_dim:
            legacy = self._architecture == _LEGACY_TENTH
            own = 1.0 if legacy else own / _mscale(factor, mscale_all_dim)
        if whole:
            own = whole
        if not given or math.isclose(given, own, rel_tol=1e-4):
            return own
        return own * given

    def _long_magnitude(self) -> float:
        n_original = self.n_original()
        scale = self._n_context / n_original
        if scale <= 1.0 or n_original == 1:
            return 1.0
        return math.sqrt(1.0 + math.log(scale) / math.log(n_original))

    def _refuse_further_rules(self) -> None:
        base = self._metadata.real(self._key("freq_base"), 10000.0)
        for key, plain in (("scaling.alpha", 0.0), ("freq_base_swa", base)):
            value = self._metadata.real(self._key(key), plain)
            if value != plain:
                raise ModelRefused(f"rope.{key} {value} is a rule not known here")

    def _real(self, key: str, default: float, above: float, high: float) -> float:
        """Return a number in (above, high]."""
        value = self._metadata.real(self._key(key), default)
        if not above < value <= high:
            raise ModelRefused(f"rope.{key} {value} is not above {above}, up to {high}")
        return value

    def _key(self, key: str) -> str:
        return f"{self._architecture}.rope.{key}"


def _mscale(factor: float, strength: float) -> float:
    """Return YaRN's magnitude for positions scaled by `factor`, at least 1."""
    return 1.0 + 0.1 * strength * math.log(factor)


def _read_divisors(model_file: ModelFile, name: str, n: int) -> tuple[float, ...]:
    divisors = read_floats(model_file, name, n)
    if not (divisors >= 1.0 / _MAX_FACTOR).all() or divisors.max() > _MAX_FACTOR:
        raise ModelRefused(f"tensor {name} holds a factor that turns nothing")
    return tuple(map(float, divisors))
