import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.core.errors import ConfigurationError
from agent_sdk.providers.local_gguf import GgufHead, read_gguf

STRING, ARRAY, UINT32, UINT64, FLOAT32 = 8, 9, 4, 10, 6


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def entry(name: str, kind: int, value: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + value


def gguf(*entries: bytes, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, 0, len(entries)) + b"".join(entries)


ARCHITECTURE = entry("general.architecture", STRING, text("llama"))
CONTEXT = entry("llama.context_length", UINT32, struct.pack("<I", 8192))
GOOD = gguf(
    ARCHITECTURE,
    entry("general.name", STRING, text("Émile")),
    entry("llama.rope", FLOAT32, struct.pack("<f", 1.0)),
    entry("tags", ARRAY, struct.pack("<IQ", STRING, 2) + text("a") + text("bc")),
    entry("sizes", ARRAY, struct.pack("<IQ", UINT64, 2) + struct.pack("<QQ", 1, 2)),
    CONTEXT,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "some model.gguf"


def test_the_context_length_is_found(file: Path) -> None:
    file.write_bytes(GOOD)
    assert read_gguf(file) == GgufHead("llama", 8192)


def test_a_model_need_not_say_how_long_a_text_it_takes(file: Path) -> None:
    file.write_bytes(gguf(ARCHITECTURE))
    assert read_gguf(file) == GgufHead("llama", 0)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "no GGUF file"),
        (b"PK\x03\x04 a zip", "no GGUF file"),
        (gguf(ARCHITECTURE, version=9), "version 9"),
        (gguf(CONTEXT), "kind of model"),
        (GOOD[:-2], "damaged"),
        (gguf(entry("x", 77, b"")), "damaged"),
        (gguf(struct.pack("<Q", 2**63)), "damaged"),
        (gguf(entry("x", ARRAY, struct.pack("<IQ", STRING, 2**60))), "damaged"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(file: Path, data: bytes, what: str) -> None:
    file.write_bytes(data)
    with pytest.raises(ConfigurationError, match=what) as caught:
        read_gguf(file)
    assert repr(str(file)) in caught.value.message
    assert "GGUF" in caught.value.hint


@pytest.mark.parametrize("make", [lambda p: None, lambda p: p.mkdir()])
def test_what_is_no_file_is_named(file: Path, make: Any) -> None:
    make(file)
    with pytest.raises(ConfigurationError, match="is no file"):
        read_gguf(file)


@given(st.integers(0, len(GOOD)), st.binary(max_size=12))
def test_damage_is_an_error_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, at: int, noise: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.gguf"
    path.write_bytes(GOOD[:at] + noise + GOOD[at + len(noise) :])
    try:
        head = read_gguf(path)
    except ConfigurationError:
        return
    assert head.context_length >= 0
