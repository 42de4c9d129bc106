"""A configuration that cannot work is refused with the option's name."""

from pathlib import Path

import pytest

from p2pmoe.config import (
    DiskPolicy,
    MissingPolicy,
    ServeConfig,
    Tuning,
    parse_listen,
)
from p2pmoe.errors import ConfigurationError


def config(**changes: object) -> ServeConfig:
    return ServeConfig(model=Path("m.gguf"), data=Path("d"), **changes)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"profile": "r64"}, "--profile"),
        ({"wait_coverage": 1.5}, "--wait-coverage"),
        ({"wait_coverage": float("nan")}, "--wait-coverage"),
        ({"ram_bytes": 0}, "--ram"),
        ({"n_context": -1}, "--context"),
        ({"listen": "localhost"}, "--listen"),
        ({"disk": DiskPolicy.OFF, "ram_bytes": 5}, "--disk"),
        ({"disk_cache_bytes": 0}, "--disk-cache"),
        ({"missing": MissingPolicy.DROP, "drop_bound": 1.5}, "--drop-bound"),
        ({"missing": MissingPolicy.DROP, "drop_bound": float("nan")}, "--drop-bound"),
        ({"drop_bound": 0.1}, "--drop-bound"),
        ({"manifest": "https://host/m"}, "--manifest"),
    ],
)
def test_bad_values_are_refused_by_name(changes: dict[str, object], word: str) -> None:
    with pytest.raises(ConfigurationError, match=word):
        config(**changes)


def test_listen_addresses() -> None:
    assert parse_listen("127.0.0.1:0") == ("127.0.0.1", 0)
    assert parse_listen(":80") == ("127.0.0.1", 80)
    assert parse_listen("[::1]:443") == ("::1", 443)
    for text in ("x:65536", "x:-1", "x:", "12"):
        with pytest.raises(ConfigurationError):
            parse_listen(text)


def test_tuning_refuses_what_cannot_work() -> None:
    with pytest.raises(ConfigurationError, match="spot_check_rate"):
        Tuning(spot_check_rate=float("nan"))
    with pytest.raises(ConfigurationError, match="n_lanes"):
        Tuning(n_lanes=0)
