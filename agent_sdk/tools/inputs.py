"""The input of a call, checked against the tool's declared schema. Pure.

Models spell some fields in several ways, and send numbers as text; both are
put right here and nowhere else. Everything else that does not fit is refused
with the name of the field and the fields that there are.
"""

from collections.abc import Callable, Mapping
from typing import Any

from agent_sdk.core.errors import InvalidToolInput
from agent_sdk.providers.messages import Json

SPELLINGS: Mapping[str, str] = {
    "path": "file_path",
    "filePath": "file_path",
    "filepath": "file_path",
    "filename": "file_path",
    "oldText": "old_string",
    "old_text": "old_string",
    "oldString": "old_string",
    "old_str": "old_string",
    "newText": "new_string",
    "new_text": "new_string",
    "newString": "new_string",
    "new_str": "new_string",
    "replaceAll": "replace_all",
}
"""Other spellings of fields; one counts only for a tool that has the field."""

_SHOWN = 60


def check_input(
    raw: Json, schema: Mapping[str, Any], *, tool: str, also: Mapping[str, Any] | None = None
) -> Json:
    """Return the input with declared names and types.

    A field that is null counts as absent. ``"42"`` and ``42.0`` are taken for
    an integer, ``"true"`` and ``"false"`` for a boolean.

    Args:
        raw: What the model sent.
        schema: The tool's JSON Schema: an object with ``properties`` (each with
            a ``type`` and perhaps a ``minimum``) and ``required``.
        tool: The tool's name, for messages.
        also: Properties that are accepted, but not declared to the model.

    Raises:
        InvalidToolInput: If a field is missing, unknown, given twice or of
            another type.
    """
    properties: Mapping[str, Any] = {**schema["properties"], **(also or {})}
    checked: Json = {}
    for given, value in raw.items():
        if value is None:
            continue
        name = given if given in properties else SPELLINGS.get(given, given)
        if name not in properties:
            known = ", ".join(properties)
            raise InvalidToolInput(f"{tool} has no field {given!r}.", hint=f"Fields: {known}.")
        if name in checked and checked[name] != value:
            raise InvalidToolInput(f"{tool}: {name!r} is given twice, differently.")
        checked[name] = _convert(value, properties[name], f"{tool}: {name!r}")
    for name in schema.get("required", ()):
        if name not in checked:
            raise InvalidToolInput(f"{tool}: the field {name!r} is missing.")
    return checked


def _convert(value: Any, schema: Mapping[str, Any], label: str) -> Any:  # noqa: ANN401 - any JSON
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in _KINDS:
        return value  # no type declared: the tool looks at it itself
    article, convert = _KINDS[kind]
    converted = convert(value)
    if converted is None:
        raise InvalidToolInput(f"{label} must be {article}, not {_short(value)}.")
    least = schema.get("minimum")
    if least is not None and converted < least:
        raise InvalidToolInput(f"{label} must be at least {least}, not {_short(value)}.")
    return converted


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _integer(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        digits = value.strip()
        plain = digits.removeprefix("-")
        # isdigit alone would take "²"; 18 digits are more than any field needs
        return int(digits) if plain.isascii() and plain.isdigit() and len(plain) <= 18 else None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return value if isinstance(value, int) else None


def _number(value: object) -> float | None:
    if isinstance(value, float):
        return value
    whole = _integer(value)
    if whole is not None or not isinstance(value, str):
        return whole
    try:
        number = float(value)
    except ValueError:
        return None
    return number if number - number == 0 else None  # neither infinite nor NaN


def _boolean(value: object) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    return value if isinstance(value, bool) else None


def _array(value: object) -> list[Any] | None:
    return value if isinstance(value, list) else None


def _object(value: object) -> Json | None:
    return value if isinstance(value, dict) else None


_KINDS: Mapping[str, tuple[str, Callable[[object], Any]]] = {
    "string": ("text", _string),
    "integer": ("a whole number", _integer),
    "number": ("a number", _number),
    "boolean": ("true or false", _boolean),
    "array": ("a list", _array),
    "object": ("an object", _object),
}
