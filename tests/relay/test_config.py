"""Settings that contradict each other."""

from dataclasses import replace

import pytest

from relay.config import check_config, quarter_of_memory
from relay.errors import ConfigError
from tests.support.relays import NETWORK, plain_config, tls_config


def test_good_settings() -> None:
    check_config(plain_config())
    check_config(tls_config(open=False, network=NETWORK.peer_id))


def test_a_relay_is_closed_unless_asked() -> None:
    with pytest.raises(ConfigError, match="admits nobody") as caught:
        check_config(replace(plain_config(), open=False))
    assert "--open" in caught.value.advice


def test_no_tls_only_behind_a_front() -> None:
    with pytest.raises(ConfigError, match="without TLS") as caught:
        check_config(replace(plain_config(), behind_front=False))
    assert "--behind-front" in caught.value.advice


def test_the_descriptor_is_bounded() -> None:
    with pytest.raises(ConfigError, match="1025 bytes"):
        check_config(plain_config(descriptor=bytes(1025)))


def test_a_shard_is_part_of_the_path() -> None:
    assert plain_config().served_path == "/relay"
    config = plain_config(shard=7)
    check_config(config)
    assert config.served_path == "/relay/7"
    for shard in (-1, 10_000):
        with pytest.raises(ConfigError, match=f"shard {shard}"):
            check_config(plain_config(shard=shard))


def test_a_quarter_of_memory_is_some() -> None:
    assert quarter_of_memory() > 2**20
