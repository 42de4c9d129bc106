"""The packages that only some commands need, told in one line where they are missing.

pip installs them with an extra: `p2pmoe[serve]`. A base install, which is all that
contribute and relay need, has none of them.
"""

from importlib.util import find_spec
from typing import Final

from p2pmoe.errors import ConfigurationError

__all__ = ["ExtraMissing", "check_extra", "missing_extra"]

# Top-level module -> the extra that brings it.
_EXTRAS: Final = {
    "tokenizers": "serve",
    "jinja2": "serve",
    "starlette": "serve",
    "hypercorn": "serve",
    "matplotlib": "plan",
    "psycopg": "postgres",
    "gguf": "convert",
    "acme": "acme",
    "josepy": "acme",
    "zeroconf": "lan",
}
_NEEDS: Final = {
    "serve": "serving",
    "plan": "a plan's pictures",
    "postgres": "a ledger in PostgreSQL",
    "convert": "writing model files",
    "acme": "a certificate by --acme",
    "lan": "looking for peers on the local network",
}


class ExtraMissing(ConfigurationError):
    """A command needs packages that the base install does not bring."""

    advice = "pip install 'p2pmoe[serve]'"


def check_extra(extra: str) -> None:
    """Look for an extra's packages without loading them.

    Raises:
        ExtraMissing: one of them is not installed.
    """
    for module, own in _EXTRAS.items():
        if own == extra and find_spec(module) is None:
            raise _missing(extra)


def missing_extra(error: ModuleNotFoundError) -> ExtraMissing | None:
    """Return the error for a person, or None if no extra brings the module."""
    extra = _EXTRAS.get((error.name or "").partition(".")[0])
    return None if extra is None else _missing(extra)


def _missing(extra: str) -> ExtraMissing:
    return ExtraMissing(
        f"{_NEEDS[extra]} needs the extra packages of p2pmoe[{extra}]",
        advice=f"install them: pip install 'p2pmoe[{extra}]'",
    )
