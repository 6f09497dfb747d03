"""The last bound on every tool result, whatever tool it comes from."""

from pathlib import Path

from agent_sdk.loop.types import ToolResult
from agent_sdk.providers.messages import ResultContent, TextBlock, ToolUseBlock
from agent_sdk.providers.models import Model
from agent_sdk.tools.artifacts import bound_text, output_limit


class ResultBounds:
    """Cuts results to what the model may be sent; the whole goes to a file.

    Args:
        model: The model that will read them.
        folder: Where whole outputs are saved; None saves nothing.
    """

    def __init__(self, *, model: Model, folder: Path | None) -> None:
        self._limit = output_limit(model)
        self._folder = folder

    def __call__(self, call: ToolUseBlock, result: ToolResult) -> ToolResult:
        """Return the result, cut if it is too long; never raises."""
        if isinstance(result.content, str):
            if self._fits(result.content):
                return result
            text, details = self._cut(call, result.content)
            return _replaced(result, text, details)
        texts = [b.text for b in result.content if isinstance(b, TextBlock)]
        whole = "".join(texts)
        if self._fits(whole):
            return result
        text, details = self._cut(call, whole)
        others = tuple(b for b in result.content if not isinstance(b, TextBlock))
        return _replaced(result, (TextBlock(text), *others), details)

    def _fits(self, text: str) -> bool:
        # No character takes more than four bytes, so most texts need no counting.
        return len(text) * 4 <= self._limit or len(text.encode(errors="replace")) <= self._limit

    def _cut(self, call: ToolUseBlock, text: str) -> tuple[str, dict[str, object]]:
        bounded = bound_text(text, limit=self._limit, folder=self._folder, name=call.name)
        return bounded.text, {"omittedBytes": bounded.omitted, "artifact": bounded.artifact}


def _replaced(
    result: ToolResult, content: str | tuple[ResultContent, ...], details: dict[str, object]
) -> ToolResult:
    return ToolResult(
        content=content, is_error=result.is_error, details={**result.details, **details}
    )
