"""What an explanation consists of: steps, servings, and their sums by expert. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

__all__ = ["ExpertLine", "Explanation", "LeafLine", "Step", "by_expert"]


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that the one before it is based on: its name and facts."""

    title: str
    facts: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafLine:
    """One expert served, priced."""

    serving: int
    request: int
    layer: int
    expert: int
    rows: int
    unit_price_uc: int
    amount_uc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertLine:
    """All servings of one expert."""

    layer: int
    expert: int
    servings: int
    rows: int
    unit_price_uc: int
    amount_uc: int


@dataclass(slots=True, kw_only=True)
class Explanation:
    """A transfer and all that it is based on."""

    steps: list[Step] = field(default_factory=list)
    leaves: list[LeafLine] = field(default_factory=list)  # empty where pruned
    experts: list[ExpertLine] = field(default_factory=list)

    def add(self, title: str, **facts: object) -> None:
        """Add a step."""
        self.steps.append(Step(title, facts))


def by_expert(leaves: Iterable[LeafLine]) -> list[ExpertLine]:
    """Return servings summed by expert, in ascending order."""
    grouped: dict[tuple[int, int], list[LeafLine]] = {}
    for line in leaves:
        grouped.setdefault((line.layer, line.expert), []).append(line)
    return [
        ExpertLine(
            layer=layer,
            expert=expert,
            servings=len(lines),
            rows=sum(line.rows for line in lines),
            unit_price_uc=lines[0].unit_price_uc,
            amount_uc=sum(line.amount_uc for line in lines),
        )
        for (layer, expert), lines in sorted(grouped.items())
    ]
