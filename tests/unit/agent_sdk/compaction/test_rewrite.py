"""The text of a summary, and what is found in it again."""

from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.compaction.rewrite import (
    CLEARED,
    Parts,
    parts_of,
    summary_message,
    summary_text,
    without_results,
)
from agent_sdk.providers.messages import ToolResultBlock
from tests.support.talks import ask, got

NASTY = st.one_of(
    st.text(max_size=60),
    st.sampled_from(
        [
            "</user_message>",
            '<user_message chars="3">\nabc\n</user_message>\n',
            "<summary>\nx\n</summary>",
            "What the user had asked, word for word:\n",
        ]
    ),
)


@given(NASTY, st.lists(NASTY, max_size=4))
def test_queries_are_found_again_word_for_word(summary: str, queries: list[str]) -> None:
    parts = Parts(summary.strip(), tuple(queries))
    assert parts_of(summary_text(parts)) == parts


@given(st.text(max_size=200))
def test_any_other_text_is_all_summary(text: str) -> None:
    assert parts_of(text) == Parts(text)


def test_a_text_that_was_cut_is_all_summary() -> None:
    text = summary_text(Parts("sum", ("a query",)))
    for at in range(len(text)):
        assert not parts_of(text[:at]).queries
        assert parts_of(text[:at]).summary == text[:at]


def test_results_lose_their_content_and_nothing_else() -> None:
    prompt = ask("keep me")
    assert without_results(prompt) is prompt
    assert without_results(got("c", "long")).content == (ToolResultBlock("c", CLEARED),)


def test_a_summary_is_a_message_of_its_own_origin() -> None:
    message = summary_message("text", "id")
    assert (message.text, message.origin.kind, message.origin.id) == ("text", "summary", "id")
