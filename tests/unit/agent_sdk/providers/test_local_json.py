import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.providers.local_json import (
    BrokenTurn,
    Called,
    ObjectScanner,
    Piece,
    Said,
    StringDecoder,
    TurnReader,
    Written,
)

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(), JSON_VALUES, max_size=4)


def cut_into(text: str, places: Sequence[int]) -> list[str]:
    at = sorted({p % (len(text) + 1) for p in places})
    return [text[a:b] for a, b in zip([0, *at], [*at, len(text)], strict=True)]


def read(turn: str, places: Sequence[int], *, as_object: bool = False) -> tuple[list[Piece], bool]:
    reader = TurnReader(answer="answer", answer_is_object=as_object)
    pieces = [p for part in cut_into(turn, places) for p in reader.feed(part)]
    return pieces, reader.complete


@given(
    st.text(),
    st.booleans(),
    st.lists(st.integers(min_value=0), max_size=8),
    st.text(alphabet=' }"x', max_size=4),
)
def test_a_string_cut_anywhere_is_the_string(
    text: str, ascii_only: bool, places: list[int], rest: str
) -> None:
    inside = json.dumps(text, ensure_ascii=ascii_only)[1:] + rest
    decoder = StringDecoder()
    said, after = "", ""
    for part in cut_into(inside, places):
        if decoder.ended:
            after += part
            continue
        more, left = decoder.feed(part)
        said += more
        after += left
    assert decoder.ended
    assert (said, after) == (text, rest)


@pytest.mark.parametrize(
    ("inside", "text"),
    [
        (r"a\ud83d\ude00b", "a😀b"),
        (r"a\ud83db", "a\ufffdb"),
        (r"a\ud83d\nb", "a\ufffd\nb"),
        (r"\ude00", "\ufffd"),
        (r"\ud83d\ud83d\ude00", "\ufffd😀"),
        (r"\/\b\f\t", "/\b\f\t"),
    ],
)
def test_surrogates_never_stay_alone(inside: str, text: str) -> None:
    for at in range(len(inside) + 1):
        decoder = StringDecoder()
        first, _ = decoder.feed(inside[:at])
        second, _ = decoder.feed(inside[at:] + '"')
        assert first + second == text


@pytest.mark.parametrize("inside", [r"\x41", r"\u12g4"])
def test_an_escape_that_is_none_is_an_error(inside: str) -> None:
    with pytest.raises(BrokenTurn):
        StringDecoder().feed(inside)


@given(OBJECTS, st.integers(0, 2), st.lists(st.integers(min_value=0), max_size=8))
def test_an_object_ends_at_its_own_brace(
    value: dict[str, object], indent: int, places: list[int]
) -> None:
    text = json.dumps(value, indent=indent or None)
    scanner = ObjectScanner()
    got, after = "", ""
    for part in cut_into(text + "} and more", places):
        inside, left = scanner.feed(part)
        got += inside
        after += left
    assert scanner.ended
    assert (got, after) == (text, "} and more")


@given(st.text(), st.booleans(), st.lists(st.integers(min_value=0), max_size=8))
def test_an_answer_is_said_as_it_comes(text: str, spaced: bool, places: list[int]) -> None:
    turn = json.dumps({"name": "answer", "arguments": {"text": text}}, indent=2 if spaced else None)
    pieces, complete = read(turn, places)
    assert complete
    assert all(isinstance(p, Said) for p in pieces)
    assert "".join(p.text for p in pieces if isinstance(p, Said)) == text


@given(OBJECTS, st.lists(st.integers(min_value=0), max_size=8))
def test_a_calls_arguments_pass_as_they_are_written(
    value: dict[str, object], places: list[int]
) -> None:
    turn = json.dumps({"name": "read", "arguments": value})
    pieces, complete = read(turn, places)
    assert complete
    assert pieces[0] == Called("read")
    assert "".join(p.text for p in pieces if isinstance(p, Written)) == json.dumps(value)


def test_text_is_said_before_the_turn_ends() -> None:
    reader = TurnReader(answer="answer")
    assert reader.feed('{"name": "answer", "arguments": {"text": "Hel') == [Said("Hel")]
    assert reader.feed("lo") == [Said("lo")]
    assert not reader.complete
    assert reader.feed('"}}') == []
    assert reader.complete


def test_an_answer_that_is_an_object_is_said_as_it_is_written() -> None:
    pieces, complete = read('{"name":"answer","arguments":{"a":{"b":1}}}', [30], as_object=True)
    assert complete
    assert "".join(p.text for p in pieces if isinstance(p, Said)) == '{"a":{"b":1}}'


def test_a_turn_of_another_shape_is_an_error() -> None:
    reader = TurnReader(answer="answer")
    assert reader.feed("Once upon a time there was a model. ") == []
    with pytest.raises(BrokenTurn, match="Once upon"):
        reader.feed("It talked and talked. " * 100)
