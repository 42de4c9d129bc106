"""What can be wrong with a check, as one small tree.

    P2pmoeError
      ConfigurationError
        ReferenceRefused     a reference file that is none, or is of another model

A check that finds a difference raises nothing: that is its result. A scattered run
whose processes fail raises `p2pmoe.local_network.processes.ChildFailed`.
"""

from pathlib import Path

from p2pmoe.errors import ConfigurationError

__all__ = ["ReferenceRefused"]


class ReferenceRefused(ConfigurationError):
    """A reference file that cannot be read, is no reference, or is of another model."""

    advice = (
        "give an .npz file with the arrays prompt, rows, logits (float32) and greedy "
        "of this model"
    )

    def __init__(self, path: Path, reason: str) -> None:
        """Say which file, and what is wrong with it."""
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason
