"""The head of a GGUF file: whether it is one, and how long a text its model takes.

Read before the file is given to the native library, which ends the process
over a file that it cannot use.
"""

import struct
from pathlib import Path
from typing import BinaryIO, Final

from msgspec import Struct

from agent_sdk.core.errors import ConfigurationError

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_MAX_STRING: Final = 1024 * 1024
_MAX_ENTRIES: Final = 10_000
_MAX_ITEMS: Final = 2_000_000
_STRING, _ARRAY = 8, 9
_SIZES: Final = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_UNSIGNED: Final = {4: "<I", 10: "<Q"}


class GgufHead(Struct, frozen=True):
    """What the head of a model file says.

    Attributes:
        architecture: Kind of model, such as ``llama``.
        context_length: Tokens that the model was made for; 0 if not said.
    """

    architecture: str
    context_length: int


def read_gguf(path: Path) -> GgufHead:
    """Read the head of a model file.

    Raises:
        ConfigurationError: If there is no such file, it cannot be read, or it
            is no GGUF file of a version that is known.
    """
    try:
        if not path.is_file():
            raise _error(path, "is no file")
        with path.open("rb") as file:
            return _read(path, file)
    except (struct.error, UnicodeDecodeError, OverflowError):
        raise _error(path, "is a damaged GGUF file") from None
    except OSError as error:
        raise _error(path, f"cannot be read ({error.strerror})") from error


def _error(path: Path, what: str) -> ConfigurationError:
    return ConfigurationError(
        f"The model file {str(path)!r} {what}.",
        hint="Set ZPI_LOCAL_GGUF, or 'local' in the settings, to a GGUF model file.",
    )


def _read(path: Path, file: BinaryIO) -> GgufHead:
    if file.read(4) != _MAGIC:
        raise _error(path, "is no GGUF file")
    (version,) = struct.unpack("<I", file.read(4))
    if version not in _VERSIONS:
        raise _error(path, f"has GGUF version {version}, which is not known")
    _, entries = struct.unpack("<QQ", file.read(16))
    architecture = ""
    for _ in range(min(entries, _MAX_ENTRIES)):
        name = _string(file)
        (kind,) = struct.unpack("<I", file.read(4))
        if kind in _UNSIGNED:
            form = _UNSIGNED[kind]
            (value,) = struct.unpack(form, file.read(struct.calcsize(form)))
            # The architecture comes first by the format's own rule.
            if name == f"{architecture}.context_length":
                return GgufHead(architecture, value)
        elif kind == _STRING and name == "general.architecture":
            architecture = _string(file)
        else:
            _skip(file, kind)
    if not architecture:
        raise _error(path, "does not say what kind of model it is")
    return GgufHead(architecture, 0)


def _string(file: BinaryIO) -> str:
    (size,) = struct.unpack("<Q", file.read(8))
    if size > _MAX_STRING:
        raise OverflowError
    data = file.read(size)
    if len(data) < size:
        raise struct.error
    return data.decode()


def _skip(file: BinaryIO, kind: int) -> None:
    if kind == _STRING:
        (size,) = struct.unpack("<Q", file.read(8))
        file.seek(_bounded(size, 64 * _MAX_STRING), 1)
    elif kind == _ARRAY:
        inner, count = struct.unpack("<IQ", file.read(12))
        _bounded(count, _MAX_ITEMS)
        if inner in _SIZES:
            file.seek(count * _SIZES[inner], 1)
            return
        for _ in range(count):
            _skip(file, inner)
    elif kind in _SIZES:
        file.seek(_SIZES[kind], 1)
    else:
        raise OverflowError


def _bounded(value: int, limit: int) -> int:
    if value > limit:
        raise OverflowError
    return value
