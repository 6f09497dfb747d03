"""How others take part in a run without the loop knowing who they are.

A run may be given one extension. It sees inputs before they are stored,
calls before they are authorised and after their result is durable, and the
last answer before the run ends.
"""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from agent_sdk.core.aio import AbortSignal
from agent_sdk.loop.types import PreparedCall, ToolResult
from agent_sdk.providers.messages import AssistantMessage, Json, UserMessage


class Reviewed(Struct, frozen=True, kw_only=True):
    """What a review of a call came to.

    Attributes:
        prepared: The call as it shall run; with another input, if that was
            replaced.
        refused: Why it shall not run, as the model is told; empty if it may,
            which says nothing about permission.
        context: To be stored behind the results of the whole answer.
    """

    prepared: PreparedCall
    refused: str = ""
    context: tuple[UserMessage, ...] = ()


class RunExtension(Protocol):
    """Takes part in a run.

    Nothing of it raises, except ``Aborted`` when the signal is set, and what
    is said of a method.
    """

    @property
    def reviews_calls(self) -> bool:
        """Whether calls pass ``before_tool`` and ``after_tool``.

        Then no call starts before its answer has ended.
        """
        ...

    async def admit(self, message: UserMessage, signal: AbortSignal) -> tuple[UserMessage, ...]:
        """Return what is stored for an input: the message itself, and context around it.

        Raises:
            InputRefused: If the input is not wanted.
        """
        ...

    async def before_tool(
        self,
        prepared: PreparedCall,
        revise: Callable[[Json], PreparedCall],
        signal: AbortSignal,
    ) -> Reviewed:
        """Look at a call before it is authorised.

        Args:
            prepared: The call, its input checked.
            revise: Checks another input for the same call and returns the call
                with it; raises ``ToolError`` if it does not fit.
            signal: Stops the review.
        """
        ...

    async def after_tool(
        self, prepared: PreparedCall, result: ToolResult, signal: AbortSignal
    ) -> tuple[UserMessage, ...]:
        """Hear of a call that ran; its result is durable and stays as it is.

        Returns:
            Context, to be stored behind the results of the whole answer.
        """
        ...

    async def on_stop(
        self, message: AssistantMessage, signal: AbortSignal
    ) -> tuple[UserMessage, ...]:
        """Hear of the answer that would end the run.

        Returns:
            What the run goes on with; empty to let it end.
        """
        ...
