import os
import sys
from pathlib import Path

import pytest

from agent_sdk.resources import files
from agent_sdk.resources.files import Head, is_folder, list_folder, read_head, read_text
from agent_sdk.resources.problems import Unusable, shown


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"\xef\xbb\xbfna\xc3\xafve\r\n")
    assert read_text(path, most=11) == "naïve\r\n"
    assert read_text(tmp_path / "missing", most=10) is None
    assert read_text(path / "below", most=10) is None


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * 2049)
    assert read_text(path, most=2049) == "x" * 2049
    with pytest.raises(Unusable, match="larger than 2 KiB") as caught:
        read_text(path, most=2048)
    assert caught.value.hint


@pytest.mark.parametrize("most", range(1, 12))
def test_a_beginning_is_cut_between_characters(tmp_path: Path, most: int) -> None:
    path = tmp_path / "a"
    path.write_text("aé中👩z", "utf-8")
    head = read_head(path, most=most)
    assert head is not None
    assert "aé中👩z".startswith(head.text)
    assert head.whole == (most == 11)
    assert len(head.text.encode()) > most - 4


@pytest.mark.parametrize("data", [b"a\n\xff\xfe", b"\xff\xfea\x00", b"ok\n\n\xe4\xb8"])
def test_other_encodings_are_said_with_the_line(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(data)
    line = data.count(b"\n") + 1
    with pytest.raises(Unusable, match=rf"no UTF-8 text \(line {line}\)"):
        read_text(path, most=100)


def test_a_folder_is_no_file_and_a_file_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(Unusable, match="no ordinary file"):
        read_text(tmp_path, most=10)
    with pytest.raises(Unusable, match="no folder"):
        list_folder(tmp_path / "file")
    assert is_folder(tmp_path)
    assert not is_folder(tmp_path / "file")
    assert not is_folder(tmp_path / "missing")


def test_names_are_sorted(tmp_path: Path) -> None:
    for name in ("b", "a", "Z"):
        (tmp_path / name).touch()
    assert list_folder(tmp_path) == ("Z", "a", "b")
    assert list_folder(tmp_path / "missing") == ()
    assert list_folder(tmp_path / "a" / "below") == ()


def test_a_huge_folder_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_ENTRIES", 3)
    for name in "abcd":
        (tmp_path / name).touch()
    with pytest.raises(Unusable, match="more than 3 entries"):
        list_folder(tmp_path)
    (tmp_path / "d").unlink()
    assert len(list_folder(tmp_path)) == 3


if sys.platform != "win32":

    @pytest.fixture
    def project(tmp_path: Path) -> Path:
        (tmp_path / "project").mkdir()
        (tmp_path / "project-evil").mkdir()
        (tmp_path / "project-evil" / "secret").write_text("secret")
        return tmp_path / "project"

    def test_pipes_and_devices_are_not_waited_for(tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        for path in (tmp_path / "pipe", Path("/dev/zero"), Path("/dev/tty")):
            with pytest.raises(Unusable, match=r"no ordinary file|cannot be read"):
                read_text(path, most=10)
        with pytest.raises(Unusable, match="no folder"):
            list_folder(tmp_path / "pipe")

    def test_links_that_lead_nowhere_or_in_circles_are_said(tmp_path: Path) -> None:
        (tmp_path / "dangling").symlink_to("missing")
        (tmp_path / "one").symlink_to("two")
        (tmp_path / "two").symlink_to("one")
        with pytest.raises(Unusable, match="leads nowhere"):
            read_text(tmp_path / "dangling", most=10)
        with pytest.raises(Unusable, match="leads back to itself"):
            read_text(tmp_path / "one", most=10)
        with pytest.raises(Unusable, match="leads nowhere"):
            list_folder(tmp_path / "dangling")
        with pytest.raises(Unusable, match="leads back to itself"):
            list_folder(tmp_path / "one")

    def test_links_of_a_project_stay_inside(project: Path) -> None:
        (project / "real").write_text("fine")
        (project / "inside").symlink_to("real")
        (project / "out").symlink_to("../project-evil/secret")
        (project / "folder").symlink_to("../project-evil")
        assert read_text(project / "inside", most=10, within=project) == "fine"
        for path in (project / "out", project / "folder" / "secret"):
            assert read_text(path, most=10) == "secret"
            with pytest.raises(Unusable, match="leads out of the project"):
                read_text(path, most=10, within=project)
        with pytest.raises(Unusable, match="leads out of the project"):
            list_folder(project / "folder", within=project)
        assert list_folder(project, within=project) == ("folder", "inside", "out", "real")
        assert list_folder(Path("/"), within=Path("/"))

    def test_names_that_are_no_text(tmp_path: Path) -> None:
        try:
            os.mkdir(os.fsencode(tmp_path) + b"/a\xff")
        except OSError:  # a file system that takes text only
            pytest.skip("names must be text here")
        (name,) = list_folder(tmp_path)
        assert shown(name) == r"a\xff"
        (tmp_path / name / "f").write_text("x")
        assert read_head(tmp_path / name / "f", most=5) == Head("x", True)

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_what_may_not_be_read_is_said(tmp_path: Path) -> None:
        (tmp_path / "f").touch(0)
        (tmp_path / "d").mkdir(0)
        with pytest.raises(Unusable, match="Permission denied"):
            read_text(tmp_path / "f", most=10)
        with pytest.raises(Unusable, match="Permission denied"):
            list_folder(tmp_path / "d")
