from mobile_worker.device_class import DeviceClass


def test_the_numbers_are_the_wires() -> None:
    assert {kind.name: kind.value for kind in DeviceClass} == {
        "HUB": 0,
        "LAPTOP": 1,
        "PHONE": 2,
        "BROWSER": 3,
    }


def test_phones_and_browsers_may_leave_at_any_moment() -> None:
    mobile = [kind for kind in DeviceClass if kind.is_mobile]
    assert mobile == [DeviceClass.PHONE, DeviceClass.BROWSER]
