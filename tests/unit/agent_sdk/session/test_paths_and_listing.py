import os
from pathlib import Path

import pytest

from agent_sdk.core.errors import InvalidInput
from agent_sdk.session.listing import list_sessions, summarize
from agent_sdk.session.paths import agent_dir, project_key
from agent_sdk.session.records import CustomRecord, SessionInfoRecord
from tests.support.session_files import CWD, StepClock, prompt, written


def test_the_agent_folder(tmp_path: Path) -> None:
    home = "USERPROFILE" if os.name == "nt" else "HOME"
    assert agent_dir({home: str(tmp_path)}) == tmp_path / ".zpi" / "agent"
    assert agent_dir({home: "/h", "ZPI_AGENT_DIR": str(tmp_path)}) == tmp_path
    with pytest.raises(InvalidInput, match="relative"):
        agent_dir({"ZPI_AGENT_DIR": "relative/path"})


def test_project_keys() -> None:
    assert project_key("/home/me/My_Project.2") == "-home-me-My-Project-2"
    folders = ["/home/小明", "/home/小红", "/home/--", "/home/é", "/home/e", "/home/ü"]
    assert len({project_key(folder) for folder in folders}) == len(folders)
    assert project_key("/home/e\u0301") == project_key("/home/é")
    deep = "/" + "/".join(["folder"] * 60)
    assert project_key(deep) != project_key(deep + "x")
    assert len(project_key(deep)) < 255
    assert project_key("/home/小明").isascii()


def test_a_link_has_the_key_of_its_target(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert project_key(tmp_path / "link") == project_key(tmp_path / "real")


async def test_the_list(tmp_path: Path) -> None:
    await written(
        tmp_path, prompt("ctx", kind="context"), prompt("fix  the\nbug"), session_id="older"
    )
    await written(
        tmp_path,
        prompt("x" * 500),
        SessionInfoRecord(title="Newer"),
        session_id="newer",
        clock=StepClock(5000),
    )
    await written(tmp_path, prompt("z"), session_id="else", cwd="/elsewhere")
    newer, older = list_sessions(tmp_path / "sessions", CWD)
    assert (newer.session_id, newer.label, len(newer.first_prompt)) == ("newer", "Newer", 200)
    assert (older.session_id, older.label, older.title) == ("older", "fix the bug", "")
    assert older.cwd == os.path.realpath(CWD)
    assert older.created < older.last_used < newer.last_used
    assert older.size == older.path.stat().st_size
    assert (older.damaged, older.newer) == (False, False)
    assert len(list_sessions(tmp_path / "sessions")) == 3
    assert list_sessions(tmp_path / "none") == []


async def test_a_long_file_is_read_at_its_ends_only(tmp_path: Path) -> None:
    big = CustomRecord(custom_type="x", data="y" * 300_000)
    path = await written(
        tmp_path,
        prompt("first"),
        *(big for _ in range(20)),
        SessionInfoRecord(title="late"),
        big,
        CustomRecord(custom_type="last", data="z" * 2_000_000),
    )
    summary = summarize(path)
    assert summary is not None
    assert (summary.first_prompt, summary.damaged) == ("first", False)
    assert path.read_bytes().endswith(b"}\n")
    last = path.read_bytes().splitlines()[-1]
    assert f'"timestamp":"{summary.last_used}"'.encode() in last
    # A broken line that lies in neither end is not looked for.
    with path.open("r+b") as stream:
        stream.seek(1_000_000)
        stream.write(b"\0" * 10)
    again = summarize(path)
    assert again is not None
    assert not again.damaged


async def test_broken_and_empty_files_in_the_list(tmp_path: Path) -> None:
    good = await written(tmp_path, prompt("a"), prompt("b"), session_id="good")
    data = good.read_bytes()
    good.with_name("torn.jsonl").write_bytes(data[:-5])
    good.with_name("bad.jsonl").write_bytes(data.replace(b'"text":"a"', b"\0" * 10))
    good.with_name("nohead.jsonl").write_bytes(b"\0" * 50 + data)
    good.with_name("later.jsonl").write_bytes(data.replace(b'"version":1', b'"version":9'))
    good.with_name("empty.jsonl").write_bytes(b"")
    good.with_name("begun.jsonl").write_bytes(data[:20])
    (good.parent / "folder.jsonl").mkdir()
    found = {s.path.stem: s for s in list_sessions(tmp_path / "sessions", CWD)}
    assert {name: s.damaged for name, s in found.items()} == {
        "good": False, "torn": False, "bad": True, "nohead": True, "later": False
    }  # fmt: skip
    assert found["later"].newer
    assert found["nohead"].session_id == "nohead"
