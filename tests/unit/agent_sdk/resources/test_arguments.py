import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.resources.arguments import expand_arguments, split_arguments


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("", []),
        ("  a  b\tc\n", ["a", "b", "c"]),
        ("\"one two\" 'three four' five", ["one two", "three four", "five"]),
        ('a "" b', ["a", "", "b"]),
        ("it's", ["it's"]),
        ('"open end', ['"open', "end"]),
    ],
)
def test_words(typed: str, words: list[str]) -> None:
    assert split_arguments(typed) == words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("do $ARGUMENTS now, $ARGUMENTS", 'do x "y z" now, x "y z"'),
        ("$1 and $2", "x and y z"),
        ("$1$2", "xy z"),
        ("$ARGUMENTS[0] $ARGUMENTS[1] $ARGUMENTS[2]", "x y z $ARGUMENTS[2]"),
        ("$1, $3 and $10", "x, $3 and $10"),
        (r"\$1 \$ARGUMENTS $1", "$1 $ARGUMENTS x"),
        ("($1) '$2'.", "(x) 'y z'."),
        ("${HERE}/a ${OTHER} $1", "/place/a ${OTHER} x"),
        ("$1", "x"),
    ],
)
def test_placeholders(text: str, expected: str) -> None:
    typed = 'x "y z"'
    assert expand_arguments(text, typed, variables={"HERE": "/place"}) == expected


@pytest.mark.parametrize(
    "text", ["no place", "costs $1.50", "$ARGUMENTSX", "$0", "$@", "$1x", r"\$1", "${X}"]
)
def test_arguments_without_a_place_come_last(text: str) -> None:
    expected = text.replace("\\", "")
    assert expand_arguments(text + "\n", "a b") == f"{expected}\n\nARGUMENTS: a b"
    assert expand_arguments(text, "") == expected
    assert expand_arguments(text, " ") == expected


def test_nothing_typed_leaves_positions_and_empties_the_whole() -> None:
    assert expand_arguments("[$ARGUMENTS] $1", "") == "[] $1"


@given(st.text(max_size=30))
def test_what_is_put_in_is_not_looked_at_again(typed: str) -> None:
    assert expand_arguments("<$ARGUMENTS>", typed) == f"<{typed}>"
    if typed.split() == [typed] and not set(typed) & {'"', "'"}:
        assert expand_arguments("<$1>", typed) == f"<{typed}>"


@given(st.text(alphabet="$\\{}ARGUMENTS[]0123 x", max_size=40), st.text(max_size=10))
def test_no_text_raises(text: str, typed: str) -> None:
    expand_arguments(text, typed)
