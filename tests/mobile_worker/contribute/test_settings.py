"""How memory is divided, and where things lie."""

from pathlib import Path

from mobile_worker.contribute.settings import ContributeSettings
from mobile_worker.device_class import DeviceClass
from relay.endpoint import parse_endpoint
from relay.tokens import Role

MIB = 1 << 20


def settings(memory_bytes: int, **changes: object) -> ContributeSettings:
    values: dict[str, object] = {
        "data": Path("/data"),
        "endpoint": parse_endpoint("wss://relay.example/relay"),
        "token": b"",
        "network": None,
        "memory_bytes": memory_bytes,
        "disk_bytes": 1,
        "domain": "here",
    }
    return ContributeSettings(**(values | changes))


def test_decoded_weights_come_out_of_the_memory_limit() -> None:
    small, large = settings(64 * MIB), settings(4096 * MIB)
    assert small.decoded_bytes == 16 * MIB
    assert large.decoded_bytes == 32 * MIB


def test_a_hub_says_so() -> None:
    assert (settings(MIB).role, settings(MIB).device_class) == (
        Role.WORKER,
        DeviceClass.LAPTOP,
    )
    hub = settings(MIB, hub=True)
    assert (hub.role, hub.device_class) == (Role.HUB, DeviceClass.HUB)


def test_everything_lies_in_the_data_folder() -> None:
    one = settings(MIB)
    places = (one.identity_file, one.shard_folder, one.spool_folder)
    places += (one.limits_file, one.record_file)
    assert all(place.parent == Path("/data") for place in places)
    assert len(set(places)) == 5
