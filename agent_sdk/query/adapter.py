"""Loop events folded into the messages of the public SDK.

One of the two folds over the loop's events (the other is
``events.projection``). What comes out are JSON objects in the wire form of
the Claude Agent SDK's messages, one object a message, which the command line
prints as ``stream-json``. Pure but for the ids it asks for.
"""

from collections.abc import Callable, Mapping
from typing import assert_never

from agent_sdk.core.ids import Ids
from agent_sdk.core.usage import Usage, cost_usd
from agent_sdk.loop.types import (
    AgentEvent,
    AssistantMessageAdded,
    CompactionEnded,
    CompactionReason,
    CompactionStarted,
    Notice,
    PermissionAsked,
    PermissionReplied,
    RunEnded,
    RunStarted,
    StreamProgress,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UserMessageAdded,
)
from agent_sdk.providers.base import (
    ArgsDelta,
    BlockEnd,
    BlockStart,
    StreamDone,
    StreamEvent,
    StreamFailed,
    StreamRetry,
    StreamStart,
    StreamWaiting,
    TextDelta,
    ThinkingDelta,
)
from agent_sdk.providers.messages import (
    AssistantMessage,
    Block,
    Json,
    ThinkingBlock,
    block_to_json,
    result_text,
)
from agent_sdk.providers.models import Model

_OWN_FIELDS = frozenset({"providerState", "inputError"})


class SdkAdapter:
    """Folds the events of one session into SDK messages.

    Args:
        session_id: The session.
        model: The model in force.
        ids: Source of message ids.
        partial: Whether the model's deltas are wanted as ``stream_event``.
        models: Returns what is known of another model by ``provider/model``.
    """

    def __init__(
        self,
        *,
        session_id: str,
        model: Model,
        ids: Ids,
        partial: bool,
        models: Callable[[str], Model | None] = lambda _: None,
    ) -> None:
        self._session_id = session_id
        self._model = model
        self._models = models
        self._ids = ids
        self._partial = partial
        self._message_id = ""
        self._text = ""
        self._stop_reason: str | None = None
        self._denials: list[Json] = []
        self._compaction: CompactionReason = "threshold"

    def init(self, *, cwd: str, tools: list[str], permission_mode: str, version: str) -> Json:
        """Return the message that opens a run."""
        return self._message(
            "system",
            subtype="init",
            cwd=cwd,
            model=self._model.id,
            tools=tools,
            permissionMode=permission_mode,
            mcp_servers=[],
            slash_commands=[],
            output_style="default",
            skills=[],
            plugins=[],
            zpi_version=version,
        )

    def fold(self, event: AgentEvent) -> list[Json]:
        """Return the messages that the event makes; often none."""
        match event:
            case StreamProgress():
                return self._stream(event.event)
            case AssistantMessageAdded():
                return self._assistant(event)
            case ToolFinished():
                return self._tool_finished(event)
            case UserMessageAdded():
                if event.message.origin.kind in ("human", "queued"):
                    return []
                return [self._user(event.uuid, event.message.content, synthetic=True)]
            case Notice():
                return [
                    self._message(
                        "system",
                        subtype="informational",
                        level=event.level,
                        code=event.code,
                        content=event.text,
                    )
                ]
            case CompactionStarted():
                self._compaction = event.reason
                return [self._message("system", subtype="status", status="compacting")]
            case CompactionEnded():
                return self._compacted(event)
            case (
                RunStarted()
                | TurnStarted()
                | TurnEnded()
                | ToolStarted()
                | ToolProgress()
                | PermissionAsked()
                | PermissionReplied()
                | RunEnded()
            ):
                return []
            case _:
                assert_never(event)

    def result(self, end: RunEnded, *, seconds: float, spent: Mapping[str, Usage]) -> Json:
        """Return the message that closes a run.

        Args:
            end: How the run ended.
            seconds: How long it took.
            spent: The session's tokens so far by ``provider/model``, this run included.
        """
        models = {
            key: _model_usage(usage, self._model if key == self._model.key else self._models(key))
            for key, usage in (spent or {self._model.key: Usage()}).items()
        }
        subtype = {
            "completed": "success",
            "max_turns": "error_max_turns",
            "aborted": "error_during_execution",
            "error": "error_during_execution",
        }[end.status]
        fields: Json = {
            "subtype": subtype,
            "is_error": end.status != "completed",
            "duration_ms": round(seconds * 1000),
            "duration_api_ms": round(seconds * 1000),
            "num_turns": end.turns,
            "stop_reason": self._stop_reason,
            "terminal_reason": _terminal_reason(end),
            "total_cost_usd": sum(each["costUSD"] for each in models.values()),
            "usage": _zeros(end.usage),
            "modelUsage": models,
            "permission_denials": self._denials,
        }
        if end.status == "completed":
            fields["result"] = self._text
        else:
            fields["errors"] = [end.error] if end.error else []
            fields["error_code"] = end.error_code
        return self._message("result", **fields)

    # --------------------------------------------------------------- the parts

    def _message(self, kind: str, **fields: object) -> Json:
        return {
            "type": kind,
            **fields,
            "session_id": self._session_id,
            "uuid": self._ids.new(),
        }

    def _assistant(self, event: AssistantMessageAdded) -> list[Json]:
        message = event.message
        self._text = message.text or self._text
        self._stop_reason = message.stop_reason
        blocks = [_public(b) for b in message.content] or [{"type": "text", "text": ""}]
        shared = self._message_id or message.response_id or f"msg_{event.uuid}"
        self._message_id = ""
        return [
            {
                "type": "assistant",
                "message": {
                    "id": shared,
                    "type": "message",
                    "role": "assistant",
                    "model": message.model,
                    "content": [block],
                    "stop_reason": None,
                    "stop_sequence": None,
                    "usage": _zeros(message.usage),
                },
                "parent_tool_use_id": None,
                **({"error": message.error} if message.error else {}),
                **({"aborted": True} if message.stop_reason == "aborted" else {}),
                "session_id": self._session_id,
                "uuid": event.uuid if i == 0 else self._ids.new(),
            }
            for i, block in enumerate(blocks)
        ]

    def _user(self, uuid: str, content: tuple[Block, ...], *, synthetic: bool) -> Json:
        return {
            "type": "user",
            "message": {"role": "user", "content": [_public(b) for b in content]},
            "parent_tool_use_id": None,
            **({"isSynthetic": True} if synthetic else {}),
            "session_id": self._session_id,
            "uuid": uuid,
        }

    def _tool_finished(self, event: ToolFinished) -> list[Json]:
        message = self._user(event.uuid, (event.result,), synthetic=False)
        if event.details:
            message["tool_use_result"] = event.details
        if not event.denied:
            return [message]
        self._denials.append(
            {
                "tool_name": event.call.name,
                "tool_use_id": event.call.id,
                "tool_input": event.call.input,
            }
        )
        denied = self._message(
            "system",
            subtype="permission_denied",
            tool_name=event.call.name,
            tool_use_id=event.call.id,
            message=result_text(event.result),
        )
        return [denied, message]

    def _compacted(self, event: CompactionEnded) -> list[Json]:
        """Return that the context is as it was, or where it begins now."""
        done = event.status == "completed"
        status: Json = {"subtype": "status", "status": None}
        if event.status != "skipped":
            status["compact_result"] = "success" if done else "failed"
        if event.status == "failed":
            status["compact_error"] = event.error
        messages = [self._message("system", **status)]
        if done:
            facts = _compact_facts(event, self._compaction)
            boundary = self._message("system", subtype="compact_boundary", compact_metadata=facts)
            messages.append({**boundary, "uuid": event.uuid or boundary["uuid"]})
        return messages

    def _stream(self, event: StreamEvent) -> list[Json]:
        match event:
            case StreamRetry():
                return [
                    self._message(
                        "system",
                        subtype="api_retry",
                        attempt=event.attempt,
                        max_retries=event.max_attempts,
                        retry_delay_ms=round(event.delay * 1000),
                        error_status=event.error.status,
                        error=event.error.message,
                    )
                ]
            case StreamWaiting():
                return [
                    self._message(
                        "system",
                        subtype="status",
                        status="requesting",
                        elapsed_seconds=round(event.seconds),
                        limit_seconds=round(event.limit),
                    )
                ]
            case _:
                if not self._partial:
                    return []
        return [
            {
                "type": "stream_event",
                "event": raw,
                "parent_tool_use_id": None,
                "session_id": self._session_id,
                "uuid": self._ids.new(),
            }
            for raw in self._raw(event)
        ]

    def _raw(self, event: StreamEvent) -> list[Json]:
        """Return the event as those of the Messages API, whatever API it came from."""
        match event:
            case TextDelta():
                return [_delta(event.index, {"type": "text_delta", "text": event.text})]
            case ThinkingDelta():
                return [_delta(event.index, {"type": "thinking_delta", "thinking": event.text})]
            case ArgsDelta():
                delta = {"type": "input_json_delta", "partial_json": event.text}
                return [_delta(event.index, delta)]
            case BlockStart():
                return [
                    {
                        "type": "content_block_start",
                        "index": event.index,
                        "content_block": _empty_block(event),
                    }
                ]
            case BlockEnd():
                stop: Json = {"type": "content_block_stop", "index": event.index}
                if isinstance(event.block, ThinkingBlock) and event.block.signature:
                    delta = {"type": "signature_delta", "signature": event.block.signature}
                    return [_delta(event.index, delta), stop]
                return [stop]
            case StreamStart():
                self._message_id = event.response_id
                return [{"type": "message_start", "message": self._start(event)}]
            case StreamDone():
                return _message_end(event.message)
            case StreamFailed() | StreamRetry() | StreamWaiting():
                return []
            case _:
                assert_never(event)

    def _start(self, event: StreamStart) -> Json:
        return {
            "id": event.response_id,
            "type": "message",
            "role": "assistant",
            "model": event.model or self._model.id,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _zeros(Usage()),
        }


def _public(block: Block) -> Json:
    """Return the block in its wire form, without what only ZPI's own files hold."""
    return {k: v for k, v in block_to_json(block).items() if k not in _OWN_FIELDS}


def _delta(index: int, delta: Json) -> Json:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def _empty_block(event: BlockStart) -> Json:
    match event.kind:
        case "text":
            return {"type": "text", "text": ""}
        case "thinking":
            return {"type": "thinking", "thinking": "", "signature": ""}
        case "redacted_thinking":
            return {"type": "redacted_thinking", "data": ""}
        case "tool_use":
            return {"type": "tool_use", "id": event.tool_id, "name": event.tool_name, "input": {}}
        case _:
            assert_never(event.kind)


def _message_end(message: AssistantMessage) -> list[Json]:
    return [
        {
            "type": "message_delta",
            "delta": {"stop_reason": message.stop_reason, "stop_sequence": None},
            "usage": _zeros(message.usage),
        },
        {"type": "message_stop"},
    ]


def _zeros(usage: Usage) -> Json:
    """Return the usage with every field present, as readers of the wire form expect."""
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": usage.cache_read_input_tokens,
        "cache_creation_input_tokens": usage.cache_creation_input_tokens,
    }


def _terminal_reason(end: RunEnded) -> str:
    match end.status:
        case "completed":
            return "completed"
        case "max_turns":
            return "max_turns"
        case "aborted":
            return "aborted_streaming"
        case "error":
            return "api_error" if end.error_code == "provider" else "model_error"
        case _:
            assert_never(end.status)


def _compact_facts(event: CompactionEnded, reason: CompactionReason) -> Json:
    return {
        "trigger": "manual" if reason == "manual" else "auto",
        "pre_tokens": event.tokens_before,
        **({"post_tokens": event.tokens_after} if event.tokens_after else {}),
    }


def _model_usage(usage: Usage, model: Model | None) -> Json:
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "cacheReadInputTokens": usage.cache_read_input_tokens,
        "cacheCreationInputTokens": usage.cache_creation_input_tokens,
        "webSearchRequests": 0,
        "costUSD": cost_usd(usage, model.prices) if model else 0.0,
        "contextWindow": model.context_window if model else 0,
        "maxOutputTokens": model.max_output if model else 0,
    }
