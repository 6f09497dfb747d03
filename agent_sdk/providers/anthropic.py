"""Anthropic Messages: requests to bytes.

Each message of a conversation is encoded once and its bytes are kept, so that
what is sent again is the same to the byte, which is what the provider's prompt
cache goes by. The marks that tell it where to cache are set into copies.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from agent_sdk import __version__
from agent_sdk.core.errors import InvalidInput
from agent_sdk.providers.anthropic_stream import AnthropicDecoder
from agent_sdk.providers.base import Decoder, ModelRequest, PromptSection, ToolSpec
from agent_sdk.providers.convert import (
    NO_DOCUMENT,
    NO_IMAGE,
    NOT_LOADED,
    encode_json,
    endpoint,
    same_origin,
    wire_id,
)
from agent_sdk.providers.history import History, Segment
from agent_sdk.providers.messages import (
    AssistantMessage,
    Block,
    DocumentBlock,
    ImageBlock,
    Json,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agent_sdk.providers.models import Api, Model

API: Final[Api] = "anthropic-messages"
DEFAULT_BASE_URL: Final = "https://api.anthropic.com"
_VERSION: Final = "2023-06-01"
_LEAST_BUDGET: Final = 1024
_LEAST_ANSWER: Final = 1024
_NO_OUTPUT: Final = "(no output)"

_MARK: Final = b',"cache_control":{"type":"ephemeral"}'
_USER_END: Final = b'}],"role":"user"}'
_MARKED_MESSAGES: Final = 2
"""How many of the last user messages are marked. The provider looks back only
twenty blocks from a mark; a turn with many parallel calls is longer."""


class AnthropicAdapter:
    """The ``Adapter`` for Messages; see ``providers.base``."""

    api: str = API

    def __init__(self) -> None:
        self._model: Model | None = None
        self._history = History(lambda segment: ())
        self._system = _Kept(_system)
        self._tools = _Kept(_tools)

    def url(self, model: Model) -> str:
        """Return the endpoint for the model; a base with or without ``/v1`` will do."""
        return endpoint(model.base_url or DEFAULT_BASE_URL, "/messages")

    def headers(self, model: Model, key: str) -> dict[str, str]:
        """Return the headers; where compat says so, the key is sent as a bearer token."""
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "anthropic-version": _VERSION,
            "user-agent": f"zpi/{__version__}",
        }
        if key and model.compat.get("auth") == "bearer":
            headers["authorization"] = f"Bearer {key}"
        elif key:
            headers["x-api-key"] = key
        return headers

    def decoder(self, request: ModelRequest) -> Decoder:
        """Return a fresh decoder for one attempt."""
        return AnthropicDecoder(request)

    def encode(self, request: ModelRequest) -> bytes:
        """Return the request's body.

        Raises:
            InvalidInput: If a value is no JSON, or the model's table entry is bad.
        """
        model = request.model
        if model is not self._model and model != self._model:
            self._history = History(lambda segment: _messages(segment, model))
        self._model = model
        # A one-off request would pay for a cache that nobody reads.
        cached = bool(request.session_id) and model.compat.get("prompt_cache", True) is not False
        max_tokens = request.max_tokens or model.max_output
        fields: dict[str, bytes] = {
            "model": encode_json(model.id),
            "max_tokens": encode_json(max_tokens),
            "stream": b"true",
        }
        for name, value in _thinking(request, max_tokens).items():
            fields[name] = encode_json(value)
        system = self._system.get(request.system)
        if system:
            fields["system"] = b"[%b]" % _marked(system, cached=cached)
        tools = self._tools.get(request.tools)
        if tools:
            fields["tools"] = b"[%b]" % _marked(tools, cached=cached)
        pieces = self._history.pieces(request.messages)
        if cached:
            _mark_last(pieces)
        for name, value in (request.extra or {}).items():
            if name == "messages":
                pieces = [encode_json(value)[1:-1]]
            else:
                fields[name] = encode_json(value)
        return _body(fields, pieces)


def _body(fields: dict[str, bytes], messages: list[bytes]) -> bytes:
    """Return the body; the messages, which may be megabytes, are copied only once."""
    head = b",".join(b"%b:%b" % (encode_json(name), value) for name, value in fields.items())
    messages = messages or [b""]
    messages[0] = b'{%b,"messages":[%b' % (head, messages[0])
    messages[-1] += b"]}"
    return b",".join(messages)


class _Kept:
    """Keeps the bytes that were last made of something, while it is the same object."""

    def __init__(self, encode: Callable[[Any], Iterable[Json]]) -> None:
        self._encode = encode
        self._of: object = None
        self._bytes = b""

    def get(self, of: object) -> bytes:
        """Return its parts as JSON, joined by commas; empty if there are none."""
        if of is not self._of:
            self._bytes = b",".join(map(encode_json, self._encode(of)))
            self._of = of
        return self._bytes


def _system(sections: tuple[PromptSection, ...]) -> Iterable[Json]:
    return ({"type": "text", "text": s.text} for s in sections if s.text.strip())


def _tools(tools: tuple[ToolSpec, ...]) -> Iterable[Json]:
    for tool in tools:
        # The API wants an object at the root, and no choice between several.
        schema = {
            name: value
            for name, value in tool.parameters.items()
            if name not in {"anyOf", "oneOf", "allOf"}
        }
        yield {
            "name": tool.name,
            "description": tool.description,
            "input_schema": {"type": "object", **schema},
        }


def _marked(objects: bytes, *, cached: bool) -> bytes:
    """Set a cache mark into the last of some JSON objects."""
    return b"%b%b}" % (objects[:-1], _MARK) if cached else objects


def _mark_last(pieces: list[bytes]) -> None:
    """Set cache marks into the last blocks of the last user messages."""
    left = _MARKED_MESSAGES
    for at in range(len(pieces) - 1, -1, -1):
        piece = pieces[at]
        if piece.endswith(_USER_END):
            pieces[at] = piece[: -len(_USER_END)] + _MARK + _USER_END
            left -= 1
            if not left:
                return


# ---------------------------------------------------------------- reasoning


def _thinking(request: ModelRequest, max_tokens: int) -> dict[str, Json]:
    """Return the fields about reasoning and the form of the answer."""
    model, level = request.model, request.thinking_level
    fields: dict[str, Json] = {}
    output: Json = {}
    if level == "off":
        # A model that always reasons has no such level, and refuses the field.
        if "off" in model.thinking or (model.thinking and model.thinking_style == "budget"):
            fields["thinking"] = {"type": "disabled"}
    elif level and model.thinking:
        word = model.thinking.get(level, level)
        if model.thinking_style == "budget":
            thinking = _budget(request, word, max_tokens)
            if thinking:
                fields["thinking"] = thinking
        elif model.thinking_style == "adaptive":
            # Summaries are asked for: without them a long thought is silence.
            fields["thinking"] = {"type": "adaptive", "display": "summarized"}
            output["effort"] = word
        else:
            output["effort"] = word
    if request.output_schema is not None:
        output["format"] = {"type": "json_schema", "schema": request.output_schema}
    if output:
        fields["output_config"] = output
    return fields


def _budget(request: ModelRequest, word: str, max_tokens: int) -> Json:
    """Return the field for a budget that leaves room for the answer; empty for none."""
    try:
        wanted = request.thinking_budget or int(word)
    except ValueError:
        raise InvalidInput(
            f"The reasoning level {request.thinking_level!r} of {request.model.key!r} is"
            f" {word!r}, not a number of tokens.",
            hint="Correct it in models.json.",
        ) from None
    budget = min(max(wanted, _LEAST_BUDGET), max_tokens - _LEAST_ANSWER)
    if budget < _LEAST_BUDGET or _broken_off(request):
        return {}
    return {"type": "enabled", "budget_tokens": budget}


def _broken_off(request: ModelRequest) -> bool:
    """Whether calls are being answered whose reasoning cannot be sent back.

    The API refuses to reason on then: the model was changed in between.
    """
    for message in reversed(request.messages):
        if isinstance(message, AssistantMessage):
            return bool(message.tool_calls) and not _reasoning_first(message, request.model)
        if any(not isinstance(b, ToolResultBlock) for b in message.content):
            return False
    return False


def _reasoning_first(message: AssistantMessage, model: Model) -> bool:
    first = next(iter(_answer_blocks(message, model)), {})
    return first.get("type") in {"thinking", "redacted_thinking"}


# ----------------------------------------------------------------- messages


def _messages(segment: Segment, model: Model) -> list[bytes]:
    """Return the messages of one segment: the answer, then what the user side says."""
    encoded = []
    if segment.answer is not None:
        blocks = list(_answer_blocks(segment.answer, model))
        if blocks:
            encoded.append(encode_json({"content": blocks, "role": "assistant"}))
    user = list(_user_blocks(segment, model))
    if user:
        encoded.append(encode_json({"content": user, "role": "user"}))
    return encoded


def _answer_blocks(message: AssistantMessage, model: Model) -> Iterable[Json]:
    ours = same_origin(message, model)
    for block in message.content:
        match block:
            case TextBlock() if block.text.strip():
                yield {"type": "text", "text": block.text}
            case ThinkingBlock() if ours and block.signature:
                yield {
                    "type": "thinking",
                    "thinking": block.thinking,
                    "signature": block.signature,
                }
            case RedactedThinkingBlock() if ours:
                yield {"type": "redacted_thinking", "data": block.data}
            case ToolUseBlock():
                yield {
                    "type": "tool_use",
                    "id": wire_id(block.id),
                    "name": block.name,
                    "input": block.input,
                }
            case _:
                pass  # what this model cannot be told: others' reasoning, unknown blocks


def _user_blocks(segment: Segment, model: Model) -> Iterable[Json]:
    """Results come first, as the API wants it, then everything else."""
    later: list[Block] = []
    for result in segment.results:
        yield _result(result, model, later)
    for block in (*later, *segment.content):
        sent = _block(block, model)
        if sent is not None:
            yield sent


def _result(result: ToolResultBlock, model: Model, later: list[Block]) -> Json:
    """Return a result; pictures of a failed call are put off: the API wants text there."""
    content: str | list[Json]
    if isinstance(result.content, str):
        content = result.content
    else:
        content = []
        for block in result.content:
            if result.is_error and not isinstance(block, TextBlock):
                later.append(block)
                continue
            sent = _block(block, model)
            if sent is not None:
                content.append(sent)
    sent_result: Json = {"type": "tool_result", "tool_use_id": wire_id(result.tool_use_id)}
    sent_result["content"] = content or _NO_OUTPUT
    if result.is_error:
        sent_result["is_error"] = True
    return sent_result


def _block(block: Block, model: Model) -> Json | None:
    match block:
        case TextBlock():
            return {"type": "text", "text": block.text} if block.text.strip() else None
        case ImageBlock():
            return _attachment("image", block.source, model)
        case DocumentBlock():
            sent = _attachment("document", block.source, model)
            if block.title and sent["type"] == "document":
                sent["title"] = block.title
            return sent
        case _:
            return None


def _attachment(kind: str, source: Json, model: Model) -> Json:
    """Return an image or a document, or a text that says why it is missing."""
    if kind not in model.modalities:
        return {"type": "text", "text": NO_IMAGE if kind == "image" else NO_DOCUMENT}
    match source:
        case {"type": "base64", "data": str(data)}:
            default = "image/png" if kind == "image" else "application/pdf"
            media_type = source.get("media_type") or default
            sent: Json = {"type": "base64", "media_type": media_type, "data": data}
        case {"type": "url", "url": str(url)}:
            sent = {"type": "url", "url": url}
        case {"type": "text", "data": str(data)} if kind == "document":
            sent = {"type": "text", "media_type": "text/plain", "data": data}
        case _:
            return {"type": "text", "text": NOT_LOADED}
    return cast("Json", {"type": kind, "source": sent})
