"""OpenAI Chat Completions: requests to bytes.

The lingua franca of servers: besides OpenAI it is spoken by OpenRouter,
DeepSeek, vLLM, Ollama, LM Studio, llama.cpp and many more; how they differ is
in ``openai_compat``, how they answer in ``openai_chat_stream``.
"""

from collections.abc import Sequence
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
)
from agent_sdk.providers.models import Api, Model
from agent_sdk.providers.openai_chat_stream import ChatDecoder
from agent_sdk.providers.openai_common import (
    CACHE_KEY_LIMIT,
    DEFAULT_BASE_URL,
    ToolsCache,
    bearer_headers,
    join_body,
)
from agent_sdk.providers.openai_compat import ChatCompat, chat_compat, thinking_fields

API: Api = "openai-completions"
_ID_LIMIT = 40
_IMAGES_FOLLOW = "[The images follow in the next message.]"
_IMAGES_OF = "Images from the tool results above:"


class OpenAIChatAdapter:
    """The ``Adapter`` for Chat Completions; see ``providers.base``."""

    api: str = API

    def __init__(self) -> None:
        self._model: Model | None = None
        self._compat = ChatCompat()
        self._history = History(lambda segment: ())
        self._tools = ToolsCache()

    def url(self, model: Model) -> str:
        """Return the endpoint for the model."""
        return endpoint(model.base_url or DEFAULT_BASE_URL, "/chat/completions")

    def headers(self, model: Model, key: str) -> dict[str, str]:
        """Return the headers; the key goes as a bearer token."""
        del model
        return bearer_headers(key)

    def decoder(self, request: ModelRequest) -> Decoder:
        """Return a fresh decoder for one attempt."""
        self._use(request.model)
        return ChatDecoder(request, needs_finish=self._compat.finish_reason)

    def encode(self, request: ModelRequest) -> bytes:
        """Return the request's body.

        Raises:
            InvalidInput: If a value is no JSON, or the model's compat entry is bad.
        """
        model = request.model
        self._use(model)
        compat = self._compat
        fields: dict[str, bytes] = {"model": encode_json(model.id), "stream": b"true"}
        if compat.stream_usage:
            fields["stream_options"] = b'{"include_usage":true}'
        if compat.store:
            fields["store"] = b"false"
        if request.max_tokens is not None:
            fields[compat.max_tokens_field] = encode_json(request.max_tokens)
        for name, value in thinking_fields(request, compat).items():
            fields[name] = encode_json(value)
        if compat.prompt_cache_key and request.session_id:
            fields["prompt_cache_key"] = encode_json(request.session_id[:CACHE_KEY_LIMIT])
        if request.output_schema is not None:
            fields["response_format"] = encode_json(
                {
                    "type": "json_schema",
                    "json_schema": {
                        "name": "answer",
                        "schema": request.output_schema,
                        "strict": compat.strict_schema,
                    },
                }
            )
        if request.tools:
            fields["tools"] = self._tools.get(request.tools, nested=True)
        return join_body(fields, ("messages", self._messages(request)), request.extra)

    def _messages(self, request: ModelRequest) -> list[bytes]:
        pieces = self._history.pieces(request.messages)
        system = system_text(request.system)
        if system:
            role = "developer" if self._compat.developer_role else "system"
            pieces.insert(0, encode_json({"role": role, "content": system}))
        return pieces

    def _use(self, model: Model) -> None:
        """Start afresh for another model: what is sent back depends on it."""
        if model is not self._model and model != self._model:
            compat = chat_compat(model)
            self._model, self._compat = model, compat
            self._history = History(lambda segment: encode_segment(segment, model, compat))


def encode_segment(segment: Segment, model: Model, compat: ChatCompat) -> list[bytes]:
    """Return the messages of one segment, each as JSON."""
    messages: list[Json] = []
    if segment.answer is not None:
        messages.append(_answer(segment.answer, model, compat))
    images: list[Json] = []
    messages.extend([_result(result, model, images) for result in segment.results])
    content = _parts(segment.content, model)
    if images:
        content = [{"type": "text", "text": _IMAGES_OF}, *images, *content]
    if content:
        messages.append({"role": "user", "content": _plain(content)})
    return [encode_json(m) for m in messages]


def _answer(answer: AssistantMessage, model: Model, compat: ChatCompat) -> Json:
    texts = [b.text for b in answer.content if isinstance(b, TextBlock) and b.text]
    message: Json = {"role": "assistant", "content": "\n".join(texts) or None}
    if compat.replay_reasoning:
        thoughts = [b.thinking for b in answer.content if isinstance(b, ThinkingBlock)]
        own = same_origin(answer, model)
        message[compat.replay_reasoning] = "\n".join(thoughts) if own else ""
    if answer.tool_calls:
        message["tool_calls"] = [
            {
                "id": wire_id(c.id, _ID_LIMIT),
                "type": "function",
                "function": {"name": c.name, "arguments": encode_json(c.input).decode()},
            }
            for c in answer.tool_calls
        ]
    return message


def _result(result: ToolResultBlock, model: Model, images: list[Json]) -> Json:
    """Return a result; its images are put into ``images``, for a user message."""
    if isinstance(result.content, str):
        text = result.content
    else:
        parts = _parts(result.content, model)
        pictures = [p for p in parts if p["type"] != "text"]
        texts = [p["text"] for p in parts if p["type"] == "text"]
        if pictures:
            texts.append(_IMAGES_FOLLOW)
            images.extend(pictures)
        text = "\n".join(texts)
    return {
        "role": "tool",
        "tool_call_id": wire_id(result.tool_use_id, _ID_LIMIT),
        "content": text or "(no output)",
    }


def _plain(parts: list[Json]) -> str | list[Json]:
    """Text alone goes as a string, which every server understands."""
    if all(p["type"] == "text" for p in parts):
        return "\n\n".join(p["text"] for p in parts)
    return parts


def _parts(blocks: Sequence[Block], model: Model) -> list[Json]:
    parts: list[Json] = []
    for block in blocks:
        match block:
            case TextBlock():
                if block.text:
                    parts.append({"type": "text", "text": block.text})
            case ImageBlock():
                parts.append(_image(block, model))
            case DocumentBlock():
                parts.append(_document(block, model))
            case _:
                pass  # blocks of an unknown kind are for other APIs
    return parts


def _image(block: ImageBlock, model: Model) -> Json:
    if "image" not in model.modalities:
        return {"type": "text", "text": NO_IMAGE}
    url = image_url(block.source)
    if not url:
        return {"type": "text", "text": NOT_LOADED}
    return {"type": "image_url", "image_url": {"url": url}}


def _document(block: DocumentBlock, model: Model) -> Json:
    match block.source:
        case {"type": "text", "data": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "base64", "data": str(data)} if "document" in model.modalities:
            media: Any = block.source.get("media_type") or "application/pdf"
            file = {
                "filename": block.title or "document",
                "file_data": f"data:{media};base64,{data}",
            }
            return {"type": "file", "file": file}
        case _:
            return {"type": "text", "text": NO_DOCUMENT}
