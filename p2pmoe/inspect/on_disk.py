"""The files that hold a model's weights: how many there are, and their bytes.

A folder may hold other files of weights (the same model in its publisher's own layout,
say); those that the header was not read from are not counted.
"""

from dataclasses import dataclass

from p2pmoe.weights.find import parse_part_name
from p2pmoe.weights.huggingface.weight_files import weight_files
from p2pmoe.weights.model_header import ModelHeader

__all__ = ["OnDisk", "files_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDisk:
    """The files that hold the model, which may be more compact than it is shown."""

    n_files: int
    n_bytes: int


def files_of(header: ModelHeader) -> OnDisk:
    """Count the files that a header was read from; ModelFileError if they are gone."""
    folder = header.folder
    if folder is not None:
        sizes = [(folder / n).stat().st_size for n in weight_files(folder).names]
        return OnDisk(n_files=len(sizes), n_bytes=sum(sizes))
    part = parse_part_name(header.path)
    is_set = part is not None and header.path.stat().st_size < header.n_bytes
    n_files = part.count if part is not None and is_set else 1
    return OnDisk(n_files=n_files, n_bytes=header.n_bytes)
