"""Whether a prompt can be sent, history and what is on its way."""

import pytest

from desktop.bridge.messages import ProjectInfo
from desktop.gui.chat.composer_state import (
    MAX_HISTORY,
    MAX_PROMPT_KEPT,
    Block,
    History,
    Outbox,
    block,
    joined,
    prompts_of,
)
from tests.support.shell import EMBEDDED, GPT, PROJECT, SONNET, locked_models, models, opened, row

OPEN = opened(row("a"))
MISSING = ProjectInfo(id="p1", path="/home/ann/shop", name="shop", missing=True)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, None),
        ({"host_up": False}, Block("host")),
        ({"opened": None}, Block("session")),
        ({"row": row("a", problem="damaged")}, Block("read_only", "damaged")),
        ({"project": MISSING}, Block("folder", "/home/ann/shop")),
        ({"models": None}, Block("loading")),
        ({"model": ""}, Block("no_model")),
        ({"model": "x/gone"}, Block("unknown", "x/gone")),
        ({"model": GPT.key}, Block("no_key", "openai")),
        ({"model": EMBEDDED.key}, None),
        ({"model": SONNET.key, "models": models(key="none")}, Block("no_key", "anthropic")),
        ({"model": SONNET.key, "models": locked_models()}, Block("key_locked", "anthropic")),
        ({"model": GPT.key, "models": locked_models()}, Block("no_key", "openai")),
        # The first of several reasons is what has to be mended first.
        ({"host_up": False, "opened": None, "models": None}, Block("host")),
        ({"project": MISSING, "model": ""}, Block("folder", "/home/ann/shop")),
    ],
)
def test_why_nothing_can_be_sent(changes: dict[str, object], expected: Block | None) -> None:
    state: dict[str, object] = {
        "host_up": True,
        "opened": OPEN,
        "row": OPEN.row,
        "project": PROJECT,
        "models": models(),
        "model": SONNET.key,
    }
    assert block(**{**state, **changes}) == expected  # type: ignore[arg-type]


def test_no_model_at_all_is_a_reason_of_its_own() -> None:
    state = models(key="none")
    none = type(state)(models=(GPT,), providers=(), key_store=state.key_store)
    made = block(
        host_up=True, opened=OPEN, row=OPEN.row, project=PROJECT, models=none, model=GPT.key
    )
    assert made == Block("no_models")


class TestHistory:
    def test_walks_back_and_forth_and_gives_back_what_was_typed(self) -> None:
        history = History()
        history.fill(["one", "two"])
        assert history.older("draft") == "two"
        assert history.older("two") == "one"
        assert history.older("one") is None
        assert history.newer() == "two"
        assert history.newer() == "draft"
        assert history.newer() is None

    def test_begins_anew_after_an_edit(self) -> None:
        history = History()
        history.fill(["one", "two"])
        history.older("")
        history.older("")
        history.edited()
        assert history.older("changed") == "two"
        assert history.newer() == "changed"

    def test_is_empty_at_first(self) -> None:
        assert History().older("x") is None
        assert History().newer() is None

    def test_keeps_no_prompt_twice_in_a_row(self) -> None:
        history = History()
        for text in ("a", "a", "b"):
            history.add(text)
        assert [history.older(""), history.older(""), history.older("")] == ["b", "a", None]

    def test_is_bounded(self) -> None:
        history = History()
        for number in range(MAX_HISTORY + 10):
            history.add(str(number))
        history.add("x" * (MAX_PROMPT_KEPT + 1))
        seen = 0
        while history.older("") is not None:
            seen += 1
        assert seen == MAX_HISTORY


def test_history_of_a_transcript_is_what_people_wrote() -> None:
    page = opened(row("a"), prompts=("first", "second")).page
    assert prompts_of(page.messages) == ["first", "second"]
    hook = type(page.messages[0])(
        info=type(page.messages[0].info)(id="h", session_id="a", role="user", origin="hook"),
        parts=page.messages[0].parts,
    )
    assert prompts_of((hook,)) == []


class TestOutbox:
    def test_gives_every_prompt_an_id_of_its_own(self) -> None:
        outbox = Outbox()
        assert outbox.take("a", "x").prompt_id != outbox.take("a", "x").prompt_id

    def test_a_prompt_that_may_have_arrived_keeps_its_id_when_sent_again(self) -> None:
        outbox = Outbox()
        first = outbox.take("a", "x")
        outbox.failed(first)
        assert outbox.take("a", "x") == first
        assert outbox.take("a", "x") != first

    def test_another_text_or_session_is_another_prompt(self) -> None:
        outbox = Outbox()
        first = outbox.take("a", "x")
        outbox.failed(first)
        assert outbox.take("b", "x").prompt_id != first.prompt_id
        assert outbox.take("a", "y").prompt_id != first.prompt_id


def test_text_put_back_loses_nothing() -> None:
    assert joined("", "x") == "x"
    assert joined("  \n", "x") == "x"
    assert joined("mine ", "x") == "mine\n\nx"
