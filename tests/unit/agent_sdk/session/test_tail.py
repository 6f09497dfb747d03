from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.core.errors import SessionNotFound, StorageError
from agent_sdk.session import tail as tail_module
from agent_sdk.session.codec import encode
from agent_sdk.session.records import AssistantRecord, Record, RewindRecord, UserRecord
from agent_sdk.session.replay import in_view
from agent_sdk.session.tail import read_tail
from tests.support.session_files import answer, prompt, written
from tests.support.session_states import chained, random_records


def messages_of(records: tuple[Record, ...]) -> list[str]:
    return [r.uuid for r in records if isinstance(r, UserRecord | AssistantRecord)]


@given(st.data())
def test_it_is_the_end_of_what_is_in_view(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    records = chained(*data.draw(random_records()))
    path = tmp_path_factory.mktemp("tail") / "s.jsonl"
    torn = data.draw(st.sampled_from([b"", b'{"type":"us']))
    path.write_bytes(b"".join(encode(record)[0] + b"\n" for record in records) + torn)
    wanted = data.draw(st.integers(0, 12))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tail_module, "_BLOCK", data.draw(st.sampled_from([1, 200, 700, 1 << 18])))
        found = messages_of(read_tail(path, messages=wanted))
    whole = messages_of(tuple(in_view(records)))
    assert whole[len(whole) - len(found) :] == found
    assert len(found) >= min(wanted, len(whole))


async def test_a_long_session_is_not_read_whole(tmp_path: Path) -> None:
    path = await written(tmp_path, *[prompt("word " * 1000) for _ in range(300)], answer("last"))
    found = read_tail(path, messages=20)
    assert 20 <= len(found) < 100
    assert isinstance(found[-1], AssistantRecord)


async def test_a_rewind_to_far_back_is_followed(tmp_path: Path) -> None:
    long = [prompt("word " * 1000) for _ in range(300)]
    first = "00000000-0000-4000-8000-000000000003"
    back = RewindRecord(to_uuid=first, reason="rewind")
    path = await written(tmp_path, prompt("a"), *long, back, prompt("b"))
    texts = [r.message.content for r in read_tail(path, messages=2) if isinstance(r, UserRecord)]
    assert texts == [prompt("a").message.content, prompt("b").message.content]


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(SessionNotFound, match="gone"):
        read_tail(tmp_path / "gone.jsonl", messages=1)
    with pytest.raises(StorageError):
        read_tail(tmp_path, messages=1)
