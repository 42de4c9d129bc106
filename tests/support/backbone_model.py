"""A backbone's local side over a real model file, for tests: places and prompts."""

from pathlib import Path

from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.cost import LocalCost
from p2pmoe.backbone.disk import DiskTier, ExpertFile
from p2pmoe.backbone.experts_at_hand import HotSet
from p2pmoe.backbone.scattered import ExpertPlaces, Network
from p2pmoe.backbone.use import UseCounts
from p2pmoe.config import DiskPolicy
from p2pmoe.model.model import Model, load_model
from p2pmoe.weights.model_file import ModelFile, open_model

__all__ = ["POCKET", "LocalSide", "open_local_side"]

POCKET = Path(__file__).resolve().parents[2] / "p2pmoe/models/pocket-q4_0.gguf"


class LocalSide:
    """A loaded model and what is local of its experts."""

    def __init__(self, path: Path) -> None:
        """Load the model; no expert is resident yet."""
        self.file: ModelFile = open_model(path)
        self.kernel = NumpyKernel()
        self.model: Model = load_model(self.file, self.kernel)
        self.experts = ExpertFile(self.file)
        description = self.model.description
        self.sizes = {
            ExpertId(layer, index): self.experts.n_bytes(ExpertId(layer, index))
            for layer in description.moe_layers
            for index in range(description.n_expert)
        }

    def places(
        self,
        *,
        budget_bytes: int | None = None,
        policy: DiskPolicy = DiskPolicy.FALLBACK,
        profile: Profile = Profile.R16,
        network: Network | None = None,
    ) -> ExpertPlaces:
        """Return places whose hot set holds what the budget takes, lowest ids first."""
        description = self.model.description
        use = UseCounts(
            description.n_layer, description.n_expert, len(description.moe_layers)
        )
        hot = HotSet(self.sizes, budget_bytes, self.experts.weights)
        hot.fill(use.decayed())
        cost = LocalCost()
        return ExpertPlaces(
            kernel=self.kernel,
            profile=profile,
            n_embd=description.n_embd,
            file=self.experts,
            hot=hot,
            disk=DiskTier(self.experts, max_bytes=1 << 20, cost=cost),
            policy=policy,
            cost=cost,
            use=use,
            network=network,
        )


_SIDES: dict[Path, LocalSide] = {}


def open_local_side(path: Path = POCKET) -> LocalSide:
    """Return the local side of a model file, loaded once per test run."""
    if path not in _SIDES:
        _SIDES[path] = LocalSide(path)
    return _SIDES[path]


