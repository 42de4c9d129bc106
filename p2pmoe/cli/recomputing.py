"""What commands share that recompute a leaf: the model, its manifest, the kernel."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from p2pmoe.referee.recompute import Case, Finding

__all__ = ["ManifestFile", "recompute_case"]

ManifestFile = Annotated[
    Path | None,
    typer.Option(
        "--manifest",
        metavar="FILE",
        help="The manifest that was served, if the model's own has another hash.",
    ),
]


def recompute_case(case: "Case", model: str, manifest: Path | None) -> "Finding":
    """Compute a leaf's results with a model: a path, or `pocket`.

    Raises:
        ConfigurationError: it is another model than the voucher names.
        ModelFileError, FormatUnsupported, KernelUnavailable: it cannot be computed.
    """
    from mobile_worker.arithmetic.candidates import kernel_candidates
    from mobile_worker.arithmetic.select import choose_kernel
    from p2pmoe.cli.computing import default_threads, wanted_kernel
    from p2pmoe.cli.late_bar import LateBar
    from p2pmoe.cli.model_path import model_path
    from p2pmoe.referee.manifests import built_manifest, read_manifest
    from p2pmoe.referee.recompute import recompute
    from p2pmoe.weights.model_file import open_model

    wanted = case.voucher.manifest_hash
    with LateBar() as bar, open_model(model_path(model)) as model_file:
        named = (
            read_manifest(manifest, wanted)
            if manifest is not None
            else built_manifest(model_file, wanted, bar.tell)
        )
        bar.tell("recomputing", 1.0)
        choice = choose_kernel(kernel_candidates(default_threads()), wanted_kernel())
        return recompute(case, model_file, named, choice.open(0))
