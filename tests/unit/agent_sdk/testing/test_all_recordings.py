"""All recordings of all adapters keep the provider contract."""

import pytest

from agent_sdk.providers.base import ModelRequest
from agent_sdk.providers.models import Api, Model
from agent_sdk.providers.runtime import create_adapter
from agent_sdk.testing.conformance import check_stream_contract
from tests.support.streams import STREAMS, play, recorded

FOLDERS: dict[str, Api] = {
    "anthropic": "anthropic-messages",
    "openai_chat": "openai-completions",
    "openai_responses": "openai-responses",
}
RECORDINGS = [(folder, name) for folder in FOLDERS for name in recorded(folder)]


def test_no_folder_is_forgotten() -> None:
    assert {p.name for p in STREAMS.iterdir() if p.is_dir()} == set(FOLDERS)


@pytest.mark.parametrize(("folder", "name"), RECORDINGS)
def test_recordings_keep_the_contract(folder: str, name: str) -> None:
    model = Model(id="m", provider="p", api=FOLDERS[folder])
    decoder = create_adapter(model.api).decoder(ModelRequest(model=model, messages=()))
    check_stream_contract(play(decoder, [recorded(folder)[name]]))


@pytest.mark.parametrize(("folder", "name"), RECORDINGS)
def test_recordings_cut_anywhere_keep_the_contract(folder: str, name: str) -> None:
    data = recorded(folder)[name]
    model = Model(id="m", provider="p", api=FOLDERS[folder])
    adapter = create_adapter(model.api)
    for end in range(0, len(data), 1 + len(data) // 40):
        decoder = adapter.decoder(ModelRequest(model=model, messages=()))
        check_stream_contract(play(decoder, [data[:end]]))
