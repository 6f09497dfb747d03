import pytest

from desktop.gui.first_run import Page, offer, page, trial_folder
from desktop.gui.mode_text import key_store_text
from desktop.gui.welcome import offer_text
from tests.support.shell import EMBEDDED, KEYRING, PROJECT, SONNET, models


def test_what_there_is_to_begin_with() -> None:
    found = offer(models(key="environment"))
    assert found.embedded == EMBEDDED
    assert found.ready == (SONNET,)
    assert found.environment == ("anthropic",)
    assert offer(models(key="none")).ready == ()


def test_it_is_said_in_words() -> None:
    kept = key_store_text(KEYRING)
    assert offer_text(offer(models(key="environment")), kept)[0] == (
        "Ready. Environment: a key was found for anthropic."
    )
    assert offer_text(offer(models()), kept) == ("Ready: Claude Sonnet 5.5.", kept)
    text, hint = offer_text(offer(models(key="none")), kept)
    assert "SmolLM2" in text
    assert "without a key" in hint


@pytest.mark.parametrize(
    ("projects", "known", "session_open", "expected"),
    [
        (None, True, False, "loading"),
        ((), False, False, "loading"),
        ((), True, False, "welcome"),
        ((PROJECT,), True, False, "no_session"),
        ((PROJECT,), True, True, "chat"),
        (None, False, True, "chat"),
    ],
)
def test_which_page(
    projects: tuple[()] | None, known: bool, session_open: bool, expected: Page
) -> None:
    state = models() if known else None
    assert page(projects=projects, models=state, session_open=session_open) == expected


def test_a_trial_folder_is_a_new_one() -> None:
    assert trial_folder("/docs", frozenset()).replace("\\", "/") == "/docs/zpi-trial"
    taken = frozenset({"zpi-trial", "zpi-trial-2"})
    assert trial_folder("/docs", taken).endswith("zpi-trial-3")
