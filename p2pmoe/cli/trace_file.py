"""The file of `p2pmoe run --trace`: new, written as the run goes on, always ended."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from p2pmoe import __version__
from p2pmoe.client import Completion, TextDelta, served_model
from p2pmoe.errors import ConfigurationError
from p2pmoe.trace.format import Given
from p2pmoe.trace.recording import NoTrace, TraceRecorder, flat_configuration

__all__ = ["TraceFile", "trace_file"]


class TraceFile:
    """A trace under way; see `trace_file`."""

    def __init__(self, path: Path, stream: IO[str]) -> None:
        """Write the first line."""
        self._path = path
        self._stream = stream
        self._pieces: list[str] = []
        self._recorder = TraceRecorder(self._write, f"p2pmoe {__version__}")

    def begin(self, url: str, key: str, body: Mapping[str, object]) -> None:
        """Write what is asked for, and the configuration of who is asked; ApiError."""
        asked = {
            name: value
            for name, value in body.items()
            if isinstance(value, str | int | float)
        }
        card = served_model(url, key=key)
        self._recorder.begin(Given(asked), flat_configuration(card))

    def watch(self, chunk: TextDelta) -> None:
        """Write a chunk's hashes; NoTrace."""
        self._pieces.append(chunk.text)
        self._recorder.watch(chunk.extension)

    def ended(self, answer: Completion) -> None:
        """Write how the run ended; NoTrace if it had no hashes at all."""
        if not self._recorder.n_hashes:
            raise NoTrace(
                "the backbone sent no hashes",
                advice="it may be of an older release: serve with this one",
            )
        n_prompt = answer.usage.get("prompt_tokens", 0)
        reason = answer.finish_reason or "stop"
        self._recorder.end(reason, answer.text, n_prompt)

    def failed(self) -> None:
        """Write that the run did not end, if nothing else was written."""
        self._recorder.end(None, "".join(self._pieces))

    def _write(self, line: str) -> None:
        try:
            self._stream.write(line)
        except OSError as error:
            raise _unwritable(self._path, error) from error


@contextmanager
def trace_file(
    path: Path, url: str, key: str, body: Mapping[str, object]
) -> Iterator[TraceFile]:
    """Open a new file for the trace of a run.

    Raises:
        ConfigurationError: it is there already, or cannot be written.
        ApiError: the backbone cannot be asked for its configuration.
    """
    try:
        stream = path.open("x", encoding="utf-8", newline="\n")
    except FileExistsError as error:
        raise ConfigurationError(
            f"{path} is there already", advice="name a new file with --trace"
        ) from error
    except OSError as error:
        raise _unwritable(path, error) from error
    with ExitStack() as undo:
        undo.callback(path.unlink)
        undo.callback(stream.close)
        written = TraceFile(path, stream)
        written.begin(url, key, body)
        undo.pop_all()
    try:
        yield written
    finally:
        written.failed()
        try:
            stream.close()
        except OSError as error:  # a disk that is full may show itself now alone
            raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> ConfigurationError:
    reason = (error.strerror or str(error)).lower()
    return ConfigurationError(f"cannot write the trace {path}: {reason}")
