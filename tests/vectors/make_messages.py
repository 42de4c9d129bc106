"""Write the golden bytes of one example of each message, for every implementation.

`tests/vectors/messages/golden.json`: for each example its message type, its fields
(bytes as hex) and its frame. A frame that changes is a change of the wire format.
"""

import dataclasses
import json
from pathlib import Path

from mobile_worker.messages import encode_message
from tests.support.messages import EXAMPLES

__all__ = ["GOLDEN", "golden", "main"]

GOLDEN = Path(__file__).with_name("messages") / "golden.json"


def golden() -> dict[str, object]:
    """Return the content of the file."""
    return {
        name: {
            "type": encode_message(message)[0],
            "fields": _plain(dataclasses.asdict(message)),
            "frame": encode_message(message).hex(),
        }
        for name, message in EXAMPLES.items()
    }


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def main() -> None:
    """Write the file."""
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(json.dumps(golden(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
