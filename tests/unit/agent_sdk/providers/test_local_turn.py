from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sdk.providers.base import ModelRequest, PromptSection, ToolSpec
from agent_sdk.providers.local_history import tokens
from agent_sdk.providers.local_prompt import load_prompt
from agent_sdk.providers.local_turn import SMALL_ANSWER, Turn, chat_turn, quoting, small_turn
from agent_sdk.providers.messages import (
    AssistantMessage,
    Message,
    Origin,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)
from agent_sdk.providers.models import Model

SMALL = Model(id="small", provider="local", api="local", context_window=4096, max_output=160)
OWN = Model(id="own", provider="local", api="local", context_window=2048, max_output=512)
PROMPT = load_prompt()
MANY = st.lists(st.text(max_size=300), max_size=6)


def tool(name: str, *fields: str) -> ToolSpec:
    return ToolSpec(
        name,
        f"The tool {name}. More about it.",
        {
            "type": "object",
            "properties": {field: {"type": "string"} for field in fields},
            "required": list(fields),
        },
    )


TOOLS = (
    tool("read", "file_path"),
    tool("write", "file_path", "content"),
    tool("edit", "file_path", "old_string", "new_string"),
    tool("bash", "command"),
)


def user(text: str) -> UserMessage:
    return UserMessage(content=(TextBlock(text),))


def step(name: str, given: dict[str, Any], result: str, *, failed: bool = False) -> list[Message]:
    call = ToolUseBlock(f"id-{name}-{len(result)}", name, given)
    answer = AssistantMessage(
        content=(call,), api="local", provider="local", model="m", stop_reason="tool_use"
    )
    return [answer, UserMessage(content=(ToolResultBlock(call.id, result, failed),))]


def said(text: str) -> AssistantMessage:
    return AssistantMessage(
        content=(TextBlock(text),), api="local", provider="local", model="m", stop_reason="end_turn"
    )


def ask(messages: Sequence[Message], *, model: Model = SMALL, **fields: Any) -> ModelRequest:
    return ModelRequest(model=model, messages=list(messages), **{"tools": TOOLS, **fields})


def small(*messages: Message, **fields: Any) -> Turn:
    return small_turn(ask(messages, **fields), PROMPT)


def branches(turn: Turn) -> dict[str, Mapping[str, Any]]:
    assert turn.schema is not None
    return {
        b["properties"]["name"]["const"]: b["properties"]["arguments"] for b in turn.schema["oneOf"]
    }


def size(turn: Turn) -> int:
    return sum(tokens(m["content"]) + 5 for m in turn.messages)


# ----------------------------------------------------------- the small model


def test_a_request_that_names_a_file_is_answered_by_a_call() -> None:
    turn = small(user("Read README.md and say what this project is"))
    found = branches(turn)
    assert set(found) == {"read", "write", "edit", "bash"}
    assert found["read"]["properties"]["file_path"] == {"enum": ["README.md"]}
    assert turn.messages[-1] == {
        "role": "user",
        "content": "Read README.md and say what this project is",
    }


def test_any_other_request_runs_a_command_or_is_answered() -> None:
    assert set(branches(small(user("list the files")))) == {"bash", "answer"}


def test_the_choice_costs_little() -> None:
    assert size(small(user("hello"))) < 470
    lines = small(user("hello")).messages[0]["content"].split("\n")
    assert "bash: run a command, list files, git" in lines


def test_tools_that_are_not_offered_are_not_spoken_of() -> None:
    turn = small(user("hello"), tools=TOOLS[:1])
    text = " ".join(m["content"] for m in turn.messages)
    assert "bash" not in text
    assert "style.css" not in text
    assert set(branches(turn)) == {"answer"}


def test_a_tool_of_somebody_elses_is_described_by_its_own_words() -> None:
    turn = small(user("hello"), tools=(*TOOLS, tool("weather", "place")))
    assert "weather: The tool weather" in turn.messages[0]["content"].split("\n")
    assert "weather" in branches(turn)


def test_the_program_adds_no_context_to_the_choice() -> None:
    context = UserMessage(content=(TextBlock("<date>"),), origin=Origin("context"))
    assert small(context, user("hello")).messages[-1]["content"] == "hello"


def test_only_the_last_exchange_is_remembered_and_before_the_examples() -> None:
    turn = small(user("one"), said("I"), user("two"), said("II"), user("three"))
    texts = [m["content"] for m in turn.messages]
    assert texts[1:3] == ["two", '{"name": "answer", "arguments": {"text": "II"}}']
    assert texts[-1] == "three"
    assert "one" not in texts


def test_after_a_file_was_read_it_is_explained_in_a_sentence_or_two() -> None:
    text = "1\t# Tea\n2\tA library for tea.\n"
    turn = small(user("Read README.md"), *step("read", {"file_path": "README.md"}, text))
    assert turn.schema is None
    assert turn.answer == ""
    assert turn.sampling["grammar"] == "\n".join(PROMPT.explain.sentences)
    asked = turn.messages[-1]["content"]
    assert asked.startswith('README.md:\n"""\n# Tea\nA library for tea.\n"""\n')
    assert "Read README.md" in asked


def test_of_a_long_file_the_beginning_is_shown_and_called_so() -> None:
    text = "".join(f"{n}\tline {n} of it\n" for n in range(1, 900))
    turn = small(user("Read a.txt"), *step("read", {"file_path": "a.txt"}, text))
    assert turn.messages[-1]["content"].startswith("The beginning of a.txt:")
    assert size(turn) < 500


def test_a_commands_output_is_quoted() -> None:
    turn = small(user("list"), *step("bash", {"command": "ls"}, "a.py\n\nb.py\n"))
    assert turn.sampling["grammar"] == quoting("Output of ls:\n", ["a.py", "b.py"])


def test_a_failure_is_quoted_even_of_a_file() -> None:
    failed = step("read", {"file_path": "x.md"}, "'x.md' does not exist.", failed=True)
    turn = small(user("Read x.md"), *failed)
    assert turn.sampling["grammar"] == quoting("x.md failed:\n", ["'x.md' does not exist."])


def test_a_result_without_a_line_is_said_to_be_empty() -> None:
    turn = small(user("run it"), *step("bash", {"command": "true"}, "\n"))
    assert '"true printed nothing."' in turn.sampling["grammar"]


def test_a_grammar_that_quotes_escapes_what_it_quotes() -> None:
    grammar = quoting("b:\n", ['say "hi" \\ there\x1b', "second"])
    assert grammar.split("\n") == [
        'root ::= "b:\\n" line0',
        'line0 ::= "say \\"hi\\" \\\\ there" ("\\n" line1)?',
        'line1 ::= "second"',
    ]


def test_a_wanted_form_of_the_answer_replaces_the_text() -> None:
    wanted = {"type": "object", "properties": {"n": {"type": "integer"}}}
    turn = small(user("hello"), output_schema=wanted)
    assert branches(turn)["answer"] == wanted
    assert turn.answer_is_object
    after = small(user("l"), *step("bash", {"command": "ls"}, "a"), output_schema=wanted)
    assert after.schema == wanted
    assert "grammar" not in after.sampling


@given(st.text(), MANY)
def test_the_small_models_context_is_never_overrun(text: str, results: list[str]) -> None:
    steps = [m for r in results for m in step("bash", {"command": text}, r * 50)]
    for messages in ([user(text * 200)], [user(text), *steps], [user("a"), *steps, user(text)]):
        turn = small(*messages)
        assert size(turn) + SMALL_ANSWER < SMALL.context_window
        assert turn.max_tokens <= SMALL_ANSWER


# ------------------------------------------------------ a model of one's own


def chat(*messages: Message, **fields: Any) -> Turn:
    return chat_turn(ask(messages, model=OWN, **fields), PROMPT)


def test_an_own_model_has_all_tools_and_the_conversation() -> None:
    turn = chat(
        user("one"),
        *step("bash", {"command": "ls"}, "a.py"),
        said("I"),
        user("two"),
        *step("read", {"file_path": "a.py"}, "x = 1"),
    )
    assert set(branches(turn)) == {"read", "write", "edit", "bash", "answer"}
    assert [(m["role"], m["content"]) for m in turn.messages[1:]] == [
        ("user", "one"),
        ("assistant", '{"name": "bash", "arguments": {"command": "ls"}}'),
        ("user", "Result of ls:\na.py"),
        ("assistant", '{"name": "answer", "arguments": {"text": "I"}}'),
        ("user", "two"),
        ("assistant", '{"name": "read", "arguments": {"file_path": "a.py"}}'),
        ("user", "Result of a.py:\nx = 1"),
    ]


def test_a_tool_that_was_called_twice_for_the_same_is_left_out() -> None:
    once = step("bash", {"command": "ls"}, "a")
    again = step("bash", {"command": "ls"}, "ab")
    other = step("bash", {"command": "pwd"}, "abc")
    assert "bash" in branches(chat(user("x"), *once))
    assert "bash" in branches(chat(user("x"), *once, *other))
    assert "bash" not in branches(chat(user("x"), *once, *again))


def test_without_tools_an_own_model_just_talks() -> None:
    turn = chat(
        user("hi"), said("I"), user("ho"), tools=(), system=(PromptSection("a", "Be kind."),)
    )
    assert turn.schema is None
    assert [m["content"] for m in turn.messages] == ["Be kind.", "hi", "I", "ho"]


@given(MANY, MANY, st.integers(1, 4000))
def test_an_own_models_context_is_never_overrun(
    older: list[str], results: list[str], limit: int
) -> None:
    messages: list[Message] = []
    for text in older:
        messages += [user(text * 9), *step("bash", {"command": "ls"}, text * 30), said(text)]
    messages.append(user("now " + "".join(older)))
    for number, text in enumerate(results):
        messages += step("bash", {"command": f"c{number}"}, text * 30)
    turn = chat(*messages, max_tokens=limit)
    assert size(turn) + turn.max_tokens <= OWN.context_window
    assert turn.max_tokens <= OWN.max_output


def test_long_results_are_cut_with_a_mark() -> None:
    turn = chat(user("x"), *step("bash", {"command": "ls"}, "line\n" * 5_000))
    assert turn.messages[-1]["content"].endswith(PROMPT.cut)


@pytest.mark.parametrize("name", ["choose", "explain", "chat"])
def test_the_words_are_all_there(name: str) -> None:
    assert all(msgspec.to_builtins(getattr(PROMPT, name)).values())
