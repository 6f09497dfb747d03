"""OpenAI Responses: requests to bytes.

The server keeps nothing (``store: false``): reasoning goes back and forth in
encrypted form, as the reasoning items that were received, and only to the
model that made them. Answers are decoded in ``openai_responses_stream``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from agent_sdk.providers.base import Decoder, ModelRequest
from agent_sdk.providers.convert import (
    NO_DOCUMENT,
    NO_IMAGE,
    NOT_LOADED,
    encode_json,
    endpoint,
    image_url,
    same_origin,
    system_text,
    wire_id,
)
from agent_sdk.providers.history import History, Segment
from agent_sdk.providers.messages import (
    AssistantMessage,
    Block,
    DocumentBlock,
    ImageBlock,
    Json,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agent_sdk.providers.models import Api, Model
from agent_sdk.providers.openai_common import (
    CACHE_KEY_LIMIT,
    DEFAULT_BASE_URL,
    ToolsCache,
    at_openai,
    bearer_headers,
    join_body,
)
from agent_sdk.providers.openai_responses_stream import ResponsesDecoder

API: Api = "openai-responses"
MIN_OUTPUT_TOKENS = 16
"""Less than this is refused by the API."""


class OpenAIResponsesAdapter:
    """The ``Adapter`` for Responses; see ``providers.base``."""

    api: str = API

    def __init__(self) -> None:
        self._model: Model | None = None
        self._history = History(lambda segment: ())
        self._tools = ToolsCache()

    def url(self, model: Model) -> str:
        """Return the endpoint for the model."""
        return endpoint(model.base_url or DEFAULT_BASE_URL, "/responses")

    def headers(self, model: Model, key: str) -> dict[str, str]:
        """Return the headers; the key goes as a bearer token."""
        del model
        return bearer_headers(key)

    def decoder(self, request: ModelRequest) -> Decoder:
        """Return a fresh decoder for one attempt."""
        return ResponsesDecoder(request)

    def encode(self, request: ModelRequest) -> bytes:
        """Return the request's body.

        Raises:
            InvalidInput: If a value is no JSON.
        """
        model = request.model
        self._use(model)
        fields: dict[str, bytes] = {
            "model": encode_json(model.id),
            "stream": b"true",
            "store": b"false",
        }
        if request.max_tokens is not None:
            fields["max_output_tokens"] = encode_json(max(MIN_OUTPUT_TOKENS, request.max_tokens))
        if model.thinking:
            fields["include"] = b'["reasoning.encrypted_content"]'
        reasoning = _reasoning(request)
        if reasoning:
            fields["reasoning"] = encode_json(reasoning)
        if request.session_id and at_openai(model):
            fields["prompt_cache_key"] = encode_json(request.session_id[:CACHE_KEY_LIMIT])
        if request.output_schema is not None:
            fields["text"] = encode_json({"format": _format(request.output_schema)})
        system = system_text(request.system)
        if system:
            fields["instructions"] = encode_json(system)
        if request.tools:
            fields["tools"] = self._tools.get(request.tools, nested=False)
        history = self._history.pieces(request.messages)
        return join_body(fields, ("input", history), request.extra)

    def _use(self, model: Model) -> None:
        """Start afresh for another model: what is sent back depends on it."""
        if model is not self._model and model != self._model:
            self._model = model
            self._history = History(lambda segment: encode_segment(segment, model))


def _reasoning(request: ModelRequest) -> Json:
    model, level = request.model, request.thinking_level
    if not level or not model.thinking:
        return {}
    if level == "off":
        # A model without a word for it always reasons.
        return {"effort": model.thinking["off"]} if "off" in model.thinking else {}
    return {"effort": model.thinking.get(level, level), "summary": "auto"}


def _format(schema: Mapping[str, Any]) -> Json:
    return {"type": "json_schema", "name": "answer", "schema": schema, "strict": False}


def encode_segment(segment: Segment, model: Model) -> list[bytes]:
    """Return the input items of one segment, each as JSON."""
    items: list[Json] = []
    if segment.answer is not None:
        items.extend(_answer(segment.answer, same_origin(segment.answer, model)))
    items.extend(_result(result, model) for result in segment.results)
    content = _parts(segment.content, model)
    if content:
        items.append({"type": "message", "role": "user", "content": content})
    return [encode_json(item) for item in items]


def _answer(answer: AssistantMessage, own: bool) -> list[Json]:  # noqa: FBT001 - the one question
    """Return the items of an answer; ``own`` says that this model made it."""
    items: list[Json] = []
    # The server looks for the reasoning behind an id that it knows.
    ids = own and all(
        _is_reasoning(b.providerState or {}) for b in answer.content if isinstance(b, ThinkingBlock)
    )
    for block in answer.content:
        match block:
            case ThinkingBlock():
                if own and _is_reasoning(block.providerState or {}):
                    items.append(block.providerState or {})
            case TextBlock():
                if block.text:
                    items.append(_said(block, _kept(block, own=own, ids=ids)))
            case ToolUseBlock():
                items.append(_call(block, _kept(block, own=own, ids=ids)))
            case _:
                pass  # blocks of other APIs
    return _without_stranded(items)


def _kept(block: TextBlock | ToolUseBlock, *, own: bool, ids: bool) -> Json:
    state = (block.providerState if own else None) or {}
    names = ("id", "phase") if ids else ("phase",)
    return {name: state[name] for name in names if name in state}


def _said(block: TextBlock, kept: Json) -> Json:
    part = {"type": "output_text", "text": block.text, "annotations": []}
    return {"type": "message", "role": "assistant", "content": [part], **kept}


def _is_reasoning(state: Json) -> bool:
    """Whether it is an item that the server can take back without having stored it."""
    return state.get("type") == "reasoning" and bool(
        state.get("encrypted_content") or state.get("content")
    )


def _without_stranded(items: list[Json]) -> list[Json]:
    """Drop reasoning at the end: the API wants the item that came of it."""
    while items and items[-1]["type"] == "reasoning":
        items.pop()
    return items


def _call(block: ToolUseBlock, kept: Json) -> Json:
    return {
        "type": "function_call",
        "call_id": wire_id(block.id),
        "name": block.name,
        "arguments": encode_json(block.input).decode(),
        **kept,
    }


def _result(result: ToolResultBlock, model: Model) -> Json:
    output: str | list[Json]
    if isinstance(result.content, str):
        output = result.content
    else:
        output = _parts(result.content, model)
        if all(p["type"] == "input_text" for p in output):
            output = "\n".join(p["text"] for p in output)
    return {
        "type": "function_call_output",
        "call_id": wire_id(result.tool_use_id),
        "output": output or "(no output)",
    }


def _parts(blocks: Sequence[Block], model: Model) -> list[Json]:
    parts: list[Json] = []
    for block in blocks:
        match block:
            case TextBlock():
                if block.text:
                    parts.append(_text(block.text))
            case ImageBlock():
                parts.append(_image(block, model))
            case DocumentBlock():
                parts.append(_document(block, model))
            case _:
                pass  # blocks of an unknown kind are for other APIs
    return parts


def _text(text: str) -> Json:
    return {"type": "input_text", "text": text}


def _image(block: ImageBlock, model: Model) -> Json:
    if "image" not in model.modalities:
        return _text(NO_IMAGE)
    url = image_url(block.source)
    return {"type": "input_image", "image_url": url, "detail": "auto"} if url else _text(NOT_LOADED)


def _document(block: DocumentBlock, model: Model) -> Json:
    match block.source:
        case {"type": "text", "data": str(text)}:
            return _text(text)
        case {"type": "base64", "data": str(data)} if "document" in model.modalities:
            media = block.source.get("media_type") or "application/pdf"
            return {
                "type": "input_file",
                "filename": block.title or "document",
                "file_data": f"data:{media};base64,{data}",
            }
        case {"type": "url", "url": str(url)} if "document" in model.modalities:
            return {"type": "input_file", "file_url": url}
        case _:
            return _text(NO_DOCUMENT)
