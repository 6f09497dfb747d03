"""JSON files that people write: read whole, checked strictly, never changed.

What is wrong with such a file is said with its name, its line or its field,
and what to do, since the person who reads the error has an editor open.
"""

import json
import stat
from pathlib import Path
from typing import TypeVar

import msgspec

from agent_sdk.core.errors import SettingsDamaged

T = TypeVar("T")

MAX_BYTES = 1_048_576

_BOM = b"\xef\xbb\xbf"


def read_json_file(path: Path) -> bytes | None:
    """Return the file's bytes without a byte order mark.

    Returns:
        None if there is no such file.

    Raises:
        SettingsDamaged: If it cannot be read, is no ordinary file or is larger
            than 1 MiB. A pipe is not opened: it could wait for ever.
    """
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise damaged(path, "is no ordinary file")
        if found.st_size > MAX_BYTES:
            raise damaged(path, f"is larger than {MAX_BYTES} bytes")
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise damaged(path, f"cannot be read ({error.strerror})") from error
    return data.removeprefix(_BOM)


def decode_strict(data: bytes, kind: type[T], *, path: Path) -> T:
    """Return the JSON as the type.

    Args:
        data: The file's bytes.
        kind: What it must be.
        path: Where they came from, for errors.

    Raises:
        SettingsDamaged: If it is no JSON, or not of the type.
    """
    try:
        value = msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise damaged(path, _field(str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise damaged(path, _place(str(error), data)) from None
    _refuse_twins(data, path)
    return value


def _refuse_twins(data: bytes, path: Path) -> None:
    """Refuse an object that has a field twice: all but the last would be ignored.

    A second ``permissions`` would silently take back what the first denies.
    """

    def check(pairs: list[tuple[str, object]]) -> None:
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise damaged(path, f"has {name!r} twice in one object")
            seen.add(name)

    json.loads(data, object_pairs_hook=check)


def convert_strict(value: object, kind: type[T], *, path: Path) -> T:
    """Return an already decoded JSON value as the type; see ``decode_strict``."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise damaged(path, _field(str(error))) from None


def damaged(path: Path, text: str, *, hint: str = "") -> SettingsDamaged:
    """Return the error for a file, with what is wrong with it."""
    return SettingsDamaged(
        f"{str(path)!r}: {text}.",
        hint=hint or "Correct the file, or move it away; it was not changed.",
    )


def _field(message: str) -> str:
    """Turn ``Expected `str`, got `int` - at `$.a.b``` round: the field comes first."""
    what, _, where = message.partition(" - at ")
    place = where.strip("`").removeprefix("$").lstrip(".")
    what = what.replace("`", "'")
    what = what[:1].lower() + what[1:]
    return f"field {place!r}: {what}" if place else what


def _place(message: str, data: bytes) -> str:
    """Turn the byte at which the decoder stopped into a line and a column."""
    head, _, rest = message.rpartition("(byte ")
    number = rest.rstrip(")")
    if not head or not number.isdigit():
        return f"line {data.count(10) + 1}: is no valid JSON ({message[:1].lower()}{message[1:]})"
    at = min(int(number), len(data))
    line = data.count(b"\n", 0, at) + 1
    column = at - (data.rfind(b"\n", 0, at) + 1) + 1
    text = head.strip().removeprefix("JSON is malformed: ")
    return f"line {line}, column {column}: is no valid JSON ({text})"
