"""The build backend: setuptools' own, but for a word first on Android.

pip finds no wheels of numpy, cryptography and msgpack for Android, and would build them
on a phone: minutes of heat, then an error of a compiler. Termux has them as packages of
its own. pip asks this backend before it looks for what p2pmoe depends on, so what is
missing is named here with the line that helps, and nothing is built.

Source: PEP 517, in-tree build backends.
"""

import os
import sys
from pathlib import Path

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
    "refusal",
]

_PACKAGES = ("numpy", "cryptography", "msgpack")  # of Termux: python-NAME


def refusal(platform: str, prefix: str) -> str:
    """Return why nothing is built; empty where it may be. `prefix`: Termux's root."""
    if platform != "android" and "com.termux" not in prefix:
        return ""
    folders = list(Path(prefix or "/").glob("lib/python3*/site-packages"))
    missing = [
        f"python-{name}"
        for name in _PACKAGES
        if not any((folder / name).is_dir() for folder in folders)
    ]
    if not missing:
        return ""
    return (
        f"error: {', '.join(missing)} must come from Termux itself. Run: "
        f"pkg install python {' '.join(missing)}; then again, in an environment made "
        "with python -m venv --system-site-packages"
    )


def get_requires_for_build_wheel(
    config_settings: dict[str, str | list[str]] | None = None,
) -> list[str]:
    """Return what building a wheel needs; refuse where it would build more."""
    _check()
    return build_meta.get_requires_for_build_wheel(config_settings)


def get_requires_for_build_editable(
    config_settings: dict[str, str | list[str]] | None = None,
) -> list[str]:
    """Return what an editable install needs; refuse where it would build more."""
    _check()
    return build_meta.get_requires_for_build_editable(config_settings)


def _check() -> None:
    why = refusal(sys.platform, os.environ.get("PREFIX", ""))
    if why:
        raise SystemExit(why)
