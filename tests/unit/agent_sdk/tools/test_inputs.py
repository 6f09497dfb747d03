from typing import Any

import pytest

from agent_sdk.core.errors import InvalidToolInput
from agent_sdk.tools.inputs import check_input

SCHEMA = {
    "type": "object",
    "properties": {
        "file_path": {"type": "string"},
        "offset": {"type": "integer", "minimum": 1},
        "ratio": {"type": "number"},
        "replace_all": {"type": "boolean"},
        "items": {"type": "array"},
        "extra": {"type": "object"},
        "anything": {},
    },
    "required": ["file_path"],
}


def check(**raw: Any) -> dict[str, Any]:
    return check_input({"file_path": "x", **raw}, SCHEMA, tool="t")


@pytest.mark.parametrize(
    ("field", "value", "becomes"),
    [
        ("offset", 42, 42),
        ("offset", "42", 42),
        ("offset", " 42 ", 42),
        ("offset", 42.0, 42),
        ("ratio", "1.5", 1.5),
        ("ratio", 2, 2),
        ("replace_all", True, True),
        ("replace_all", "false", False),
        ("replace_all", "True", True),
        ("items", [1], [1]),
        ("extra", {"a": 1}, {"a": 1}),
        ("anything", None, None),
        ("anything", 7, 7),
    ],
)
def test_value_is_taken(field: str, value: object, becomes: object) -> None:
    assert check(**{field: value}).get(field) == becomes


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("file_path", 5),
        ("file_path", ["x"]),
        ("offset", "4x"),
        ("offset", "²"),
        ("offset", 1.5),
        ("offset", True),
        ("offset", "9" * 19),
        ("offset", float("inf")),
        ("ratio", "nan"),
        ("ratio", "x"),
        ("replace_all", 1),
        ("replace_all", "yes"),
        ("items", "[1]"),
        ("extra", []),
    ],
)
def test_value_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(InvalidToolInput, match=f"t: '{field}' must be"):
        check(**{field: value})


def test_minimum() -> None:
    with pytest.raises(InvalidToolInput, match="at least 1, not 0"):
        check(offset=0)


def test_spellings() -> None:
    assert check_input({"path": "a"}, SCHEMA, tool="t") == {"file_path": "a"}
    assert check_input({"filePath": "a", "replaceAll": True}, SCHEMA, tool="t") == {
        "file_path": "a",
        "replace_all": True,
    }
    assert check_input({"path": "a", "file_path": "a"}, SCHEMA, tool="t") == {"file_path": "a"}
    with pytest.raises(InvalidToolInput, match="twice"):
        check_input({"path": "a", "file_path": "b"}, SCHEMA, tool="t")
    with pytest.raises(InvalidToolInput, match="no field 'oldText'"):
        check_input({"file_path": "a", "oldText": "b"}, SCHEMA, tool="t")


def test_missing_and_unknown() -> None:
    with pytest.raises(InvalidToolInput, match="'file_path' is missing"):
        check_input({}, SCHEMA, tool="t")
    with pytest.raises(InvalidToolInput, match="'file_path' is missing"):
        check_input({"file_path": None}, SCHEMA, tool="t")
    with pytest.raises(InvalidToolInput, match="no field 'pages'") as caught:
        check(pages="1-2")
    assert "file_path, offset" in caught.value.hint


def test_accepted_but_not_declared() -> None:
    raw = {"file_path": "a", "edits": [1]}
    also = {"edits": {"type": "array"}}
    assert check_input(raw, SCHEMA, tool="t", also=also) == raw


def test_long_values_are_not_repeated() -> None:
    with pytest.raises(InvalidToolInput) as caught:
        check(offset="x" * 10_000)
    assert len(str(caught.value)) < 200
