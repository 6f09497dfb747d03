"""The seam to language models: one request in, one stream of events out.

Contract of ``Provider.stream``:

- It never raises for request, network or model failures: they are the last
  event, ``StreamFailed``. Cancellation passes through, after the connection
  has been closed.
- Exactly one of ``StreamDone`` and ``StreamFailed`` is yielded, last.
- ``StreamStart`` comes before any block; a block is started, gets deltas and
  ends, in the order of its index; ``BlockEnd`` carries the finished block.
- A tool call whose arguments did not arrive whole ends with ``input_error``
  set. A stream that ends without its terminal event is a failure of kind
  ``incomplete``, whatever has arrived.
- ``StreamFailed.partial`` holds what was received of the answer, without tool
  calls, or None if nothing was.
- One provider object serves one session: requests follow each other, never
  overlap, and it may keep encoded forms of messages that it has seen.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from agent_sdk.core.errors import ProviderError
from agent_sdk.providers.messages import AssistantMessage, Block, Message
from agent_sdk.providers.models import Model


class PromptSection(Struct, frozen=True):
    """A named part of the system prompt; its text is stable between requests."""

    name: str
    text: str


class ToolSpec(Struct, frozen=True):
    """A tool as declared to the model; ``parameters`` is a JSON Schema object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


class ModelRequest(Struct, frozen=True, kw_only=True):
    """Everything that one request depends on.

    Attributes:
        model: The model asked.
        system: Sections of the system prompt, in order.
        messages: The conversation; consecutive user messages are joined, and
            each tool result is a user message of its own.
        tools: Tools offered; empty for none.
        thinking_level: ``off`` … ``max``, already clamped to the model; empty
            when nothing is to be sent about reasoning.
        thinking_budget: Budget in tokens for models that take one.
        max_tokens: Most tokens of the answer; None leaves it to the adapter.
        session_id: Stable id for prompt caching; empty for one-off requests.
        extra: Fields put into the body last, as they are.
        output_schema: JSON schema that the answer must have, where wanted.
    """

    model: Model
    messages: tuple[Message, ...] | list[Message]
    system: tuple[PromptSection, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    thinking_level: str = ""
    thinking_budget: int | None = None
    max_tokens: int | None = None
    session_id: str = ""
    extra: Mapping[str, Any] | None = None
    output_schema: Mapping[str, Any] | None = None


BlockKind: TypeAlias = Literal["text", "thinking", "redacted_thinking", "tool_use"]


class StreamStart(Struct, frozen=True, gc=False):
    """The model began to answer."""

    response_id: str = ""
    model: str = ""


class BlockStart(Struct, frozen=True, gc=False):
    """A block began. ``tool_id`` and ``tool_name`` are set for tool calls."""

    index: int
    kind: BlockKind
    tool_id: str = ""
    tool_name: str = ""


class TextDelta(Struct, frozen=True, gc=False):
    """More text of a text block."""

    index: int
    text: str


class ThinkingDelta(Struct, frozen=True, gc=False):
    """More text of a reasoning block."""

    index: int
    text: str


class ArgsDelta(Struct, frozen=True, gc=False):
    """More JSON text of a tool call's arguments."""

    index: int
    text: str


class BlockEnd(Struct, frozen=True):
    """A block is complete."""

    index: int
    block: Block


class StreamWaiting(Struct, frozen=True, gc=False):
    """Nothing has arrived yet; sent about once a second by slow local servers.

    Attributes:
        seconds: How long the request has been waiting.
        limit: After how many seconds it gives up.
    """

    seconds: float
    limit: float


class StreamRetry(Struct, frozen=True):
    """The attempt failed and is made again after a wait.

    Comes only while nothing of the answer has been yielded.

    Attributes:
        attempt: Which attempt comes next, counted from 2.
        max_attempts: How many attempts there are at most.
        delay: Seconds until then.
        error: Why the last one failed.
    """

    attempt: int
    max_attempts: int
    delay: float
    error: ProviderError


class StreamDone(Struct, frozen=True):
    """The answer is complete."""

    message: AssistantMessage


class StreamFailed(Struct, frozen=True):
    """The answer failed; ``partial`` is what had arrived, if anything."""

    error: ProviderError
    partial: AssistantMessage | None = None


StreamEvent: TypeAlias = (
    StreamStart
    | BlockStart
    | TextDelta
    | ThinkingDelta
    | ArgsDelta
    | BlockEnd
    | StreamWaiting
    | StreamRetry
    | StreamDone
    | StreamFailed
)


class Provider(Protocol):
    """A connection to one model API; see the module for the contract."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """Send the request and yield what comes back."""
        ...

    async def aclose(self) -> None:
        """Close connections; may be called twice."""
        ...


class Decoder(Protocol):
    """Turns the server-sent events of one answer into stream events; pure.

    One decoder serves one attempt. It never raises for what the server sends:
    a broken or error event makes it yield ``StreamFailed``, after which it is
    not fed again.
    """

    def feed(self, event: bytes, data: bytes) -> Sequence[StreamEvent]:
        """Take one event (its name, possibly empty, and its data)."""
        ...

    def finish(self) -> StreamEvent:
        """Say what the end of the stream means, if no last event was yielded.

        Returns ``StreamFailed`` of kind ``incomplete`` (something arrived) or
        ``empty`` (nothing did), or ``StreamDone`` where the API allows a
        stream to end without a terminal event and all of it is there.
        """
        ...


class Adapter(Protocol):
    """One wire API: requests to bytes, events to stream events; no I/O.

    An adapter serves one session and may keep the bytes of messages it has
    encoded, so that a long history is not encoded again for each request.
    """

    @property
    def api(self) -> str:
        """Name of the wire API."""
        ...

    def url(self, model: Model) -> str:
        """Return the endpoint for the model."""
        ...

    def headers(self, model: Model, key: str) -> dict[str, str]:
        """Return the headers, with the credential; an empty key sends none."""
        ...

    def encode(self, request: ModelRequest) -> bytes:
        """Return the request's body: strict JSON in UTF-8.

        Raises:
            InvalidInput: If the request cannot be put into this API.
        """
        ...

    def decoder(self, request: ModelRequest) -> Decoder:
        """Return a fresh decoder for one attempt."""
        ...
