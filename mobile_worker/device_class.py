"""What kind of machine a worker runs on; the numbers are those of OFFER and PLACEMENT.

A worker says it of itself, the market assigns by it, a backbone tells hubs from edges.
"""

from enum import IntEnum, unique

__all__ = ["DeviceClass"]


@unique
class DeviceClass(IntEnum):
    """What kind of machine a worker runs on, fastest first."""

    HUB = 0
    LAPTOP = 1
    PHONE = 2
    BROWSER = 3

    @property
    def is_mobile(self) -> bool:
        """Whether the device may leave at any moment: never an expert's only holder."""
        return self >= DeviceClass.PHONE
