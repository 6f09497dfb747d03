"""What the embedded model is asked in one turn. Pure.

There are two ways. The small model that ships is led: it first chooses, under
a grammar and after a handful of examples, and after a result it is asked about
that result and nothing else. A model of the user's own gets the conversation
and the tools as they are, under the same kind of grammar.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from agent_sdk.providers.base import ModelRequest, ToolSpec
from agent_sdk.providers.convert import encode_json, system_text
from agent_sdk.providers.local_history import (
    Exchange,
    Step,
    cut,
    cut_middle,
    exchanges,
    newest,
    plain,
    tokens,
)
from agent_sdk.providers.local_prompt import LocalPrompt
from agent_sdk.providers.local_schema import (
    answer_name,
    named_files,
    narrow,
    text_arguments,
    turn_schema,
)
from agent_sdk.providers.messages import Json

SMALL_ANSWER = 160
"""Most tokens that the small model says; what comes later is repetition."""

_SMALL_PROMPT = 1_200
_SMALL_RESULTS = 300
"""Tokens of a result, about 1,000 characters: more takes seconds to read, and
the more there is, the less of it comes back in the answer."""

_SMALL_EARLIER = 40
"""Tokens that an earlier answer may have; the model takes it for an example."""

_QUOTED_LINES = 12
_SHORT = 80

_SMALL_SAMPLING: Mapping[str, Any] = {
    "temperature": 0,
    "dry_multiplier": 0.8,
    "dry_allowed_length": 4,
}
_PROSE = (".md", ".rst", ".txt", ".html", ".htm", ".adoc", ".markdown", "README")


class Turn(Struct, frozen=True, kw_only=True):
    """One request to the local server.

    Attributes:
        messages: What is sent.
        max_tokens: Most tokens of the answer.
        schema: JSON schema that the answer must have; None for free text.
        answer: Name of the branch that is no tool; empty if the answer is not
            made of branches.
        answer_is_object: Whether that branch holds an object that the caller
            asked for, and not a text.
        sampling: Further fields of the request.
    """

    messages: tuple[Json, ...]
    max_tokens: int
    schema: Json | None = None
    answer: str = ""
    answer_is_object: bool = False
    sampling: Mapping[str, Any] = {}


def small_turn(request: ModelRequest, prompt: LocalPrompt) -> Turn:
    """Return the turn for the model that ships."""
    *older, last = exchanges(request.messages, with_context=False)
    asked = cut_middle(last.prompt, _SMALL_PROMPT, mark=prompt.cut)
    if last.steps:
        turn = _explain(last.steps[-1], asked, prompt)
    else:
        turn = _choose(request.tools, asked, older[-1:], prompt=prompt)
    limit = min(request.max_tokens or SMALL_ANSWER, SMALL_ANSWER)
    return _with_schema(msgspec.structs.replace(turn, max_tokens=limit), request.output_schema)


def _with_schema(turn: Turn, schema: Mapping[str, Any] | None) -> Turn:
    """Have the answer in the form that the caller asked for, if any."""
    if schema is None:
        return turn
    wanted = dict(schema)
    if not turn.answer:
        free = {k: v for k, v in turn.sampling.items() if k != "grammar"}
        return msgspec.structs.replace(turn, schema=wanted, sampling=free)
    branches = {
        branch["properties"]["name"]["const"]: branch["properties"]["arguments"]
        for branch in (turn.schema or {})["oneOf"]
    }
    branches[turn.answer] = wanted
    return msgspec.structs.replace(turn, schema=turn_schema(branches), answer_is_object=True)


def _choose(
    tools: Sequence[ToolSpec], asked: str, older: Sequence[Exchange], *, prompt: LocalPrompt
) -> Turn:
    words = prompt.choose
    answer = answer_name(tools)
    files = named_files(asked)
    branches = {tool.name: schema for tool in tools if (schema := narrow(tool, files))}
    if not (files and branches):
        # A file that was named is looked at, made or changed before it is talked about.
        branches[answer] = text_arguments()
    shown = [*(t for t in tools if t.name in words.tools), *_others(tools, words.tools)]
    lines = [words.system, *(f"{t.name}: {_purpose(t, words.tools)}" for t in shown)]
    messages = [_message("system", "\n".join([*lines, f"{answer}: {words.answer}"]))]
    # Earlier exchanges come before the examples: after them they would be
    # copied, since what is nearest counts most.
    for exchange in older:
        messages += _as_example(exchange, answer)
    known = {answer, *(tool.name for tool in shown)}
    for request, name, arguments in words.examples:
        name = answer if name == "answer" else name
        if name in known:
            messages += [_message("user", request), _call_message(name, arguments)]
    messages.append(_message("user", asked))
    return Turn(
        messages=tuple(messages),
        max_tokens=SMALL_ANSWER,
        schema=turn_schema(branches),
        answer=answer,
        sampling=_SMALL_SAMPLING,
    )


def _others(tools: Sequence[ToolSpec], known: Mapping[str, str]) -> list[ToolSpec]:
    """Return a few of the tools for which there are no words; more would confuse."""
    return [tool for tool in tools if tool.name not in known][:4]


def _purpose(tool: ToolSpec, known: Mapping[str, str]) -> str:
    first = tool.description.strip().split("\n", 1)[0].split(". ", 1)[0]
    return known.get(tool.name) or first[:_SHORT]


def _as_example(exchange: Exchange, answer: str) -> list[Json]:
    """Return an earlier exchange in the form of the examples: a request, and what was chosen."""
    asked = _message("user", cut(exchange.prompt, _SHORT, mark=""))
    if exchange.steps:
        call = exchange.steps[0].call
        return [asked, _call_message(call.name, call.input)]
    said = cut(exchange.answer, _SMALL_EARLIER, mark="")
    return [asked, _call_message(answer, {"text": said})]


def _explain(step: Step, asked: str, prompt: LocalPrompt) -> Turn:
    """Return the turn after a result: a file is explained, anything else is quoted.

    A model of this size says of a command's output what such output often
    says. So it is held to the lines that are there.
    """
    words = prompt.explain
    what = label(step)
    of_file = step.call.name == "read" and not step.failed
    text = plain(step.result, prose=of_file and what.endswith(_PROSE))
    short = cut(text, _SMALL_RESULTS, mark="")
    shown = (words.whole if short == text else words.part).format(what=what, text=short)
    question = words.question.format(what=what, prompt=asked)
    messages = (_message("system", words.system), _message("user", shown + question))
    if of_file and text:
        grammar = "\n".join(words.sentences)
    else:
        begin = (words.failed if step.failed else words.output).format(what=what)
        lines = [line.rstrip() for line in short.split("\n") if line.strip()]
        grammar = quoting(begin, lines or [words.nothing.format(what=what)])
    sampling = {**_SMALL_SAMPLING, "repeat_penalty": 1.06, "grammar": grammar}
    return Turn(messages=messages, max_tokens=SMALL_ANSWER, sampling=sampling)


def quoting(begin: str, lines: Sequence[str]) -> str:
    """Return the grammar of an answer that quotes lines from the first on; the model says how many.

    Args:
        begin: How the answer begins.
        lines: The lines, at least one; no more than twelve are used.
    """
    kept = [line[:_SHORT] for line in lines[:_QUOTED_LINES]]
    rules = [f"root ::= {_literal(begin)} line0"]
    for number, line in enumerate(kept, 1):
        more = f' ("\\n" line{number})?' if number < len(kept) else ""
        rules.append(f"line{number - 1} ::= {_literal(line)}{more}")
    return "\n".join(rules)


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + "".join(c for c in escaped if c.isprintable()) + '"'


def label(step: Step) -> str:
    """Return what a step is called: the file it read, the command, or the call in short."""
    given = step.call.input
    path, command = given.get("file_path") or given.get("path"), given.get("command")
    if isinstance(path, str) and step.call.name == "read":
        return path[:_SHORT]
    if isinstance(command, str):
        return command[:_SHORT]
    first = next((v for v in given.values() if isinstance(v, str)), "")
    return f"{step.call.name} {first}".strip()[:_SHORT]


# ------------------------------------------------------------ any other model


def chat_turn(request: ModelRequest, prompt: LocalPrompt) -> Turn:
    """Return the turn for a model of the user's own."""
    *older, last = exchanges(request.messages, with_context=True)
    limit = _answer_limit(request)
    room = max(256, request.model.context_window - limit - 64)
    answer = answer_name(request.tools)
    tools = [tool for tool in request.tools if tool.name != _repeated(last.steps)]
    system = _system(request, tools, answer=answer, prompt=prompt, room=room // 3)
    room -= tokens(system)
    asked = cut_middle(last.prompt, room // 2, mark=prompt.cut)
    room -= tokens(asked)
    share = max(40, room * 2 // 3 // max(1, len(last.steps)))
    steps = tuple(
        Step(s.call, cut(s.result, share, mark=prompt.cut), failed=s.failed) for s in last.steps
    )
    current = Exchange(asked, steps)
    room -= sum(tokens(s.result) + 64 for s in steps)
    kept = newest(older, room, share=share)
    said_as = answer if request.tools else ""
    messages = [_message("system", system)]
    for exchange in kept:
        messages += _replay(exchange, said_as, prompt=prompt, share=share)
    messages += _replay(current, said_as, prompt=prompt, share=share)
    branches = {tool.name: dict(tool.parameters) for tool in tools}
    branches[answer] = text_arguments()
    turn = Turn(
        messages=tuple(messages),
        max_tokens=limit,
        schema=turn_schema(branches) if tools else None,
        answer=answer if tools else "",
        sampling={"temperature": 0.2},
    )
    return _with_schema(turn, request.output_schema)


def _answer_limit(request: ModelRequest) -> int:
    model = request.model
    most = min(model.max_output, model.context_window // 3)
    return max(1, min(request.max_tokens or most, most))


def _repeated(steps: Sequence[Step]) -> str:
    """Return the tool that was called twice in a row for the same thing; it is left out."""
    if len(steps) < 2:
        return ""
    before, last = steps[-2].call, steps[-1].call
    return last.name if (before.name, before.input) == (last.name, last.input) else ""


def _system(
    request: ModelRequest, tools: Sequence[ToolSpec], *, answer: str, prompt: LocalPrompt, room: int
) -> str:
    words = prompt.chat
    if not tools:
        return cut(system_text(request.system), room, mark=prompt.cut) or words.plain
    lines = [words.system.format(answer=answer)]
    for tool in tools:
        fields = ", ".join(tool.parameters.get("properties", {}))
        described = tool.description.strip().split("\n", 1)[0]
        lines.append(f"{tool.name}({fields}): {described}")
    lines.append(f"{answer}(text): {words.answer}")
    return "\n".join(lines)


def _replay(exchange: Exchange, answer: str, *, prompt: LocalPrompt, share: int) -> list[Json]:
    """Return an exchange as it went; without ``answer``, answers are plain text."""
    messages = [_message("user", exchange.prompt)]
    for step in exchange.steps:
        form = prompt.chat.failed if step.failed else prompt.chat.result
        text = cut(step.result, share, mark=prompt.cut)
        messages.append(_call_message(step.call.name, step.call.input))
        messages.append(_message("user", form.format(what=label(step), text=text)))
    if exchange.answer:
        said = exchange.answer
        messages.append(
            _call_message(answer, {"text": said}) if answer else _message("assistant", said)
        )
    return messages


def _message(role: str, content: str) -> Json:
    return {"role": role, "content": content}


def _call_message(name: str, arguments: Mapping[str, Any]) -> Json:
    # With a space after each comma and colon, as such models have mostly seen it.
    compact = encode_json({"name": name, "arguments": arguments})
    return _message("assistant", spaced(compact.decode()))


def spaced(text: str) -> str:
    """Return compact JSON with a space after each comma and colon between values."""
    out: list[str] = []
    inside = escaped = False
    for char in text:
        out.append(char)
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = inside
        elif char == '"':
            inside = not inside
        elif char in ",:" and not inside:
            out.append(" ")
    return "".join(out)
