import io
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from agent_sdk.core.errors import InvalidInput
from agent_sdk.providers.messages import (
    AssistantMessage,
    OpaqueBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)
from agent_sdk.session.codec import (
    MAX_DEPTH,
    MAX_RECORD_BYTES,
    BadLine,
    Chain,
    Item,
    chain_break,
    encode,
    parse_line,
    peek,
    read_items,
)
from agent_sdk.session.records import (
    CustomRecord,
    KnownRecord,
    RewindRecord,
    RunRecord,
    SessionHeader,
    UnknownRecord,
    UserRecord,
    assistant_record,
    message_of,
    user_record,
)
from tests.support.session_files import prompt

ENVELOPE = {"uuid": "u", "parent_uuid": "p", "session_id": "s", "timestamp": "t"}
HEAD = b'{"type":"custom","uuid":"u","parentUuid":"p","sessionId":"s","timestamp":"t",'


def stamped(record: KnownRecord, **more: Any) -> KnownRecord:
    return msgspec.structs.replace(record, **{**ENVELOPE, **more})


def custom(data: Any) -> KnownRecord:
    return stamped(CustomRecord(custom_type="x", data=data))


def line_of(data: Any) -> bytes:
    return encode(custom(data))[0]


json_text = st.text(st.characters(exclude_categories=["Cs"]))
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | json_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(json_text, inner, max_size=4),
    max_leaves=12,
)
blocks = (
    st.builds(TextBlock, json_text)
    | st.builds(ToolUseBlock, json_text, json_text, st.dictionaries(json_text, json_values))
    | st.builds(ToolResultBlock, json_text, json_text, st.booleans())
    | st.builds(
        lambda more: OpaqueBlock({"type": "hologram", **more}),
        st.dictionaries(json_text.filter(lambda k: k != "type"), json_values, max_size=3),
    )
)


# --------------------------------------------------------------- round trips


@given(json_values)
def test_any_json_comes_back(data: Any) -> None:
    line, record = encode(custom(data))
    assert parse_line(line) == record == custom(data)
    assert b"\n" not in line
    line.decode("utf-8")


@given(st.lists(blocks, max_size=5).map(tuple))
def test_any_message_comes_back(content: Any) -> None:
    message = AssistantMessage(
        content=content, api="a", provider="p", model="m", stop_reason="end_turn"
    )
    record = stamped(assistant_record(message))
    line, same = encode(record)
    assert same is record
    read = parse_line(line)
    assert read == record
    assert not isinstance(read, str)
    assert message_of(read) == message  # type: ignore[arg-type]


def test_the_key_order_is_fixed_and_compact() -> None:
    line, _ = encode(stamped(prompt("hi"), parent_uuid=None))
    assert line == (
        b'{"type":"user","uuid":"u","parentUuid":null,"sessionId":"s","timestamp":"t",'
        b'"message":{"role":"user","content":[{"type":"text","text":"hi"}]},'
        b'"origin":{"kind":"human"}}'
    )


def test_details_stand_beside_the_message() -> None:
    message = UserMessage(content=(ToolResultBlock("c", "ok"),))
    line, _ = encode(stamped(user_record(message, details={"exit": 0})))
    data = json.loads(line)
    assert data["details"] == {"exit": 0}
    assert data["message"]["content"] == [
        {"type": "tool_result", "tool_use_id": "c", "content": "ok"}
    ]
    assert "origin" not in data


def test_a_call_without_arguments_keeps_its_input() -> None:
    message = AssistantMessage(
        content=(ToolUseBlock("c", "list"),),
        api="a",
        provider="p",
        model="m",
        stop_reason="tool_use",
    )
    line, _ = encode(stamped(assistant_record(message)))
    assert json.loads(line)["message"]["content"][0]["input"] == {}


def test_lone_surrogates_are_replaced() -> None:
    line, record = encode(stamped(prompt("a\ud800b😀")))
    assert isinstance(record, UserRecord)
    assert record.message.content == (TextBlock("a\ufffdb😀"),)
    assert parse_line(line) == record


def test_not_a_number_is_not_written() -> None:
    assert b'"data":[null,null]' in line_of([float("nan"), float("inf")])


def test_text_as_content_reads_as_one_block() -> None:
    raw = (
        b'{"type":"user","uuid":"u","parentUuid":"p","sessionId":"s","timestamp":"t",'
        b'"message":{"role":"user","content":"plain"}}'
    )
    record = parse_line(raw)
    assert isinstance(record, UserRecord)
    assert record.message.content == (TextBlock("plain"),)


def test_unicode_line_separators_do_not_split() -> None:
    line = line_of("a\u2028b\u2029c\x85d")
    (item, ended), *rest = read_items(io.BytesIO(line + b"\n").readline)
    assert isinstance(item, Item)
    assert ended
    assert not rest


# ------------------------------------------------------- refused when written


@pytest.mark.parametrize(
    ("record", "word"),
    [
        (RunRecord(event="pause", run_id="r"), "pause"),
        (RunRecord(event="end", run_id="r", status="fine"), "fine"),
        (RewindRecord(to_uuid="x", reason="because"), "because"),
        (CustomRecord(custom_type="x", data=object()), "object"),
        (CustomRecord(custom_type="x", data={1j}), "complex"),
        (RunRecord(event="start", run_id=7), "run"),  # type: ignore[arg-type]
        (user_record(UserMessage(content=(TextBlock(7),))), "user"),  # type: ignore[arg-type]
    ],
)
def test_what_does_not_fit_is_not_written(record: KnownRecord, word: str) -> None:
    with pytest.raises(InvalidInput, match=word):
        encode(stamped(record))


def test_a_record_may_not_be_too_large() -> None:
    room = MAX_RECORD_BYTES - len(line_of(""))
    assert len(line_of("x" * room)) == MAX_RECORD_BYTES
    with pytest.raises(InvalidInput, match="too large") as caught:
        line_of("x" * (room + 1))
    assert "8,388,608" in caught.value.hint


def test_a_record_may_not_be_too_deep() -> None:
    deep: Any = None
    for _ in range(MAX_DEPTH - 1):
        deep = [deep]
    assert parse_line(line_of(deep)) == custom(deep)
    with pytest.raises(InvalidInput, match="deeper"):
        line_of([deep])
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(InvalidInput):
        line_of(endless)


# -------------------------------------------------------------------- bombs


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\0" * 500,
        b"null",
        b"[]",
        b'"text"',
        b"{}",
        b"{" * 100_000,
        b'{"a":' * 100_000,
        b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        HEAD + b'"customType":"x","data":' + b"[" * 250 + b"]" * 250 + b"}",
        HEAD + b'"customType":"x","data":NaN}',
        HEAD + b'"customType":"x","data":-Infinity}',
        HEAD + b'"customType":"x","data":1e999}',
        HEAD + b'"customType":"x","data":' + b"7" * 5000 + b"}",
        HEAD + b'"customType":"x","data":"\\ud800"}',
        HEAD + b'"customType":"x","data":"\xed\xa0\x80"}',
        HEAD + b'"customType":"x","data":"\xff"}',
        HEAD + b'"customType":"x","data":"\0"}',
        HEAD + b'"customType":"x","data":1,"data":2}',
        HEAD + b'"customType":"x","data":{"a":1,"a":1}}',
        HEAD + b'"customType":"x","data":1,"\\u0064ata":2}',
        HEAD + b'"customType":"x","data":1}\r',
        HEAD + b'"customType":"x","data":1}\0\0\0',
        HEAD + b'"customType":"x","data":1}{"type":"custom"}',
        b" " + HEAD + b'"customType":"x"}',
        b"\xef\xbb\xbf" + HEAD + b'"customType":"x"}',
        (HEAD + b'"customType":"x"}').decode().encode("utf-16"),
        HEAD + b'"customType":"x","data":"cut',
        HEAD + b'"data":1}',
        HEAD + b'"customType":7}',
        b'{"type":"custom","uuid":"","parentUuid":"p","sessionId":"s","timestamp":"t","customType":"x"}',
        b'{"type":"custom","uuid":"u","sessionId":"s","timestamp":"t","customType":"x"}',
        b'{"type":7,"uuid":"u","parentUuid":"p","sessionId":"s","timestamp":"t"}',
        b'{"type":"user","uuid":"u","parentUuid":"p","sessionId":"s","timestamp":"t"}',
        b'{"type":"user","uuid":"u","parentUuid":"p","sessionId":"s","timestamp":"t",'
        b'"message":{"role":"user","content":[7]}}',
        b"x" * (MAX_RECORD_BYTES + 1),
    ],
    ids=lambda raw: repr(raw[-24:]),
)
def test_a_bomb_is_one_bad_line(raw: bytes) -> None:
    reason = parse_line(raw)
    assert isinstance(reason, str)
    assert reason
    assert len(reason) < 300


def test_a_million_keys_are_read_or_refused_but_not_a_crash() -> None:
    body = b",".join(b'"%d":0' % n for n in range(300_000))
    record = parse_line(HEAD + b'"customType":"x","data":{' + body + b"}}")
    assert not isinstance(record, str)


def test_brackets_inside_text_are_not_depth() -> None:
    text = '[{"' * 5000
    assert parse_line(line_of(text)) == custom(text)


@given(st.binary(max_size=300))
def test_no_bytes_raise(raw: bytes) -> None:
    assert isinstance(parse_line(raw), str)
    parse_line(HEAD + raw)


@given(st.integers(0, 200), st.integers(0, 255))
def test_no_changed_byte_raises(at: int, byte: int) -> None:
    line = bytearray(line_of({"a": [1, "x"], "b": None}))
    line[at % len(line)] = byte
    parse_line(bytes(line))


def test_a_line_without_end_is_never_a_record() -> None:
    lines = list(read_items(io.BytesIO(line_of(1) + b"\n" + line_of(2)).readline))
    assert [type(line) for line, _ in lines] == [Item, BadLine]
    assert [ended for _, ended in lines] == [True, False]
    bad = lines[1][0]
    assert isinstance(bad, BadLine)
    assert (bad.number, bad.offset, bad.length) == (2, len(line_of(1)) + 1, len(line_of(2)))


@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_huge_line_is_skipped_without_holding_it(end: bytes) -> None:
    class Endless(io.RawIOBase):
        most = 0

        def __init__(self) -> None:
            self.left = 3 * MAX_RECORD_BYTES
            self.rest = io.BytesIO(end + (line_of(1) + b"\n" if end else b""))

        @override
        def readline(self, limit: int | None = -1, /) -> bytes:
            assert limit is not None
            size = min(limit, self.left)
            self.left -= size
            self.most = max(self.most, size)
            return b"x" * size or self.rest.readline(limit)

    stream = Endless()
    lines = list(read_items(stream.readline))
    bad = lines[0][0]
    assert isinstance(bad, BadLine)
    assert bad.length == 3 * MAX_RECORD_BYTES + len(end)
    assert lines[0][1] == bool(end)
    assert stream.most <= MAX_RECORD_BYTES + 2
    assert [type(line) for line, _ in lines[1:]] == ([Item] if end else [])


# -------------------------------------------------------------------- chain


def chained(*uuids: str, session: str = "s") -> list[bytes]:
    lines = []
    last = None
    for uuid in uuids:
        record: KnownRecord = (
            SessionHeader(format="zpi", version=1, cwd="/")
            if last is None
            else CustomRecord(custom_type="x")
        )
        lines.append(encode(stamped(record, uuid=uuid, parent_uuid=last, session_id=session))[0])
        last = uuid
    return lines


def slow_break(lines: list[bytes]) -> int | None:
    chain = Chain()
    for number, line in enumerate(lines, 1):
        record = parse_line(line)
        if isinstance(record, str) or chain.step(record):
            return number
    return None


@pytest.mark.parametrize(
    ("lines", "broken"),
    [
        (chained("a", "b", "c", "d"), None),
        (chained("a", "b", "c")[1:], 1),
        (chained("a", "b", "c", "d")[:2] + chained("a", "b", "c", "d")[3:], 3),
        (chained("a", "b") + chained("a", "b")[1:], 3),
        (chained("a", "b") + chained("a", "b"), 3),
        (chained("a", "b") + chained("a", "b", "c", session="other")[2:], 3),
        ([*chained("a", "b"), b'{"type":"custom"'], 3),
        ([], None),
    ],
)
def test_both_chain_checks_find_the_break(lines: list[bytes], broken: int | None) -> None:
    assert chain_break(lines) == broken
    assert chain_break([line + b"\n" for line in lines]) == broken
    assert slow_break(lines) == broken


def test_the_chain_goes_on_after_a_break() -> None:
    chain = Chain()
    lines = chained("a", "b", "c", "d", "e")
    del lines[2]
    problems = [chain.step(parse_line(line)) for line in lines]  # type: ignore[arg-type]
    assert [bool(problem) for problem in problems] == [False, False, True, False]
    assert "'b'" in problems[2]


def test_a_foreign_format_and_a_newer_version_are_told_apart() -> None:
    header = SessionHeader(format="zpi", version=2, cwd="/")
    chain = Chain()
    assert chain.step(stamped(header, parent_uuid=None)) == ""
    assert chain.newer
    other = SessionHeader(format="pi", version=1, cwd="/")
    assert "'pi'" in Chain().step(stamped(other, parent_uuid=None))


def test_peek_reads_the_prefix() -> None:
    assert peek(line_of(1)) == ("custom", "u", "t")
    assert peek(b"\0" * 100) is None


def test_an_unknown_type_is_kept() -> None:
    raw = b'{"type":"later","uuid":"u","parentUuid":"p","sessionId":"s","timestamp":"t","x":1.0}'
    record = parse_line(raw)
    assert isinstance(record, UnknownRecord)
    assert record.data["x"] == 1.0
