"""Termux on Android: what must come from its own packages, and how.

pip finds no wheels of these for Android, and would try to build them: minutes of a
phone's heat, then an error of a compiler. They are packages of Termux. Pure, but for
looking what can be imported.
"""

import importlib.util
from collections.abc import Callable, Mapping

__all__ = ["INSTALL", "PACKAGES", "is_termux", "missing_packages", "refusal"]

# What is imported, and the package of Termux that has it.
PACKAGES = {
    "numpy": "python-numpy",
    "cryptography": "python-cryptography",
    "msgpack": "python-msgpack",
}
INSTALL = "pip install --only-binary=:all: ."


def is_termux(platform: str, environment: Mapping[str, str]) -> bool:
    """Whether this is Termux, or a Python on Android; `platform` is sys.platform."""
    return platform == "android" or "TERMUX_VERSION" in environment


def missing_packages(
    find: Callable[[str], object | None] = importlib.util.find_spec,
) -> list[str]:
    """Return the packages of Termux that are not here."""
    return [package for name, package in PACKAGES.items() if find(name) is None]


def refusal(missing: list[str]) -> str:
    """Return the line that says what to do about packages that are missing."""
    return (
        f"error: {', '.join(missing)} must come from Termux itself. Run: "
        f"pkg install python {' '.join(missing)}; then, in an environment made with "
        f"python -m venv --system-site-packages, from p2pmoe's folder: {INSTALL}"
    )
