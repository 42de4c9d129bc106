"""A model's header: its metadata and its tensors, whatever the files look like.

Names, shapes, keys and offsets are GGUF's; a safetensors folder is presented in the
same terms. Reading a header needs no tensor data (`read_header` in model_file.py); a
`ModelFile` is a header whose bytes are there.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.find import parse_part_name
from p2pmoe.weights.gguf import Header, Tensor
from p2pmoe.weights.metadata import Metadata

__all__ = ["ModelHeader"]


class ModelHeader:
    """What a model says of itself.

    `path` is what messages name. `folder` is a safetensors folder, which has text files
    beside its weights; None for GGUF. `needed_bytes` is what the address space must
    hold for all tensors, `n_bytes` what the files hold.
    """

    def __init__(
        self,
        path: Path,
        header: Header,
        *,
        n_bytes: int,
        folder: Path | None = None,
    ) -> None:
        """Wrap a header that was read and checked; callers use `read_header`."""
        self.path = path
        self.folder = folder
        self.n_bytes = n_bytes
        self.needed_bytes = header.n_bytes
        self.metadata = Metadata(path, header.metadata)
        self._header = header

    @property
    def name(self) -> str:
        """What the model calls itself, or else its file's or folder's name; short."""
        name = self.metadata.text("general.name", "")
        if not name:
            part = parse_part_name(self.path)
            name = self.path.stem if part is None else part.stem
            name = name if self.folder is None else self.folder.absolute().name
        return "".join(c for c in name if c.isprintable())[:100] or "model"

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """All tensors by name, in file order; read-only."""
        return MappingProxyType(self._header.tensors)

    def tensor(self, name: str) -> Tensor:
        """Return where a tensor lies; ModelFileError if the file has none such."""
        try:
            return self._header.tensors[name]
        except KeyError:
            raise ModelFileError(self.path, "is missing", tensor=name) from None

    def fingerprint(self) -> bytes:
        """Return 32 bytes that tell models apart by their headers and sizes.

        Weights are not read: two files may differ in nothing but a weight and have
        the same fingerprint.
        """
        return self._header.fingerprint
