"""A session's file tools on a folder, without a session."""

import os
from pathlib import Path
from typing import Any

from agent_sdk.core.aio import AbortSignal
from agent_sdk.core.failpoints import Faults
from agent_sdk.loop.types import PermissionRequest, Tool, ToolContext, ToolResult
from agent_sdk.providers.models import Model
from agent_sdk.tools.edit import EditTool
from agent_sdk.tools.file_state import FileReadState
from agent_sdk.tools.patch import ApplyPatchTool
from agent_sdk.tools.paths import PathGuard
from agent_sdk.tools.protected import load_protected
from agent_sdk.tools.read import ReadTool
from agent_sdk.tools.write import WriteTool

MODEL = Model(id="m", provider="p", api="anthropic-messages")
SIGHTED = Model(id="v", provider="p", api="anthropic-messages", modalities=("image",))


class Workbench:
    """The file tools of one session, sharing what the model has seen."""

    def __init__(
        self,
        folder: Path,
        *,
        roots: tuple[str, ...] = (),
        home: str = "/nowhere",
        protected: tuple[str, ...] = (),
        faults: Faults | None = None,
        model: Model = MODEL,
        state: FileReadState | None = None,
    ) -> None:
        self.cwd = os.path.realpath(folder)
        self.model = model
        self.guard = PathGuard(protected=load_protected(protected), home=home, roots=roots)
        self.state = state or FileReadState(faults=faults)
        tools: tuple[Tool, ...] = (
            ReadTool(guard=self.guard, state=self.state),
            WriteTool(guard=self.guard, state=self.state),
            EditTool(guard=self.guard, state=self.state),
            ApplyPatchTool(guard=self.guard, state=self.state),
        )
        self.tools = {tool.name: tool for tool in tools}

    def at(self, name: str) -> Path:
        return Path(self.cwd, name)

    def put(self, name: str, data: bytes | str) -> Path:
        path = self.at(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    def context(self) -> ToolContext:
        return ToolContext(
            call_id="call",
            cwd=self.cwd,
            model=self.model,
            signal=AbortSignal(),
            update=lambda text: None,
        )

    def prepare(self, tool: str, **raw: Any) -> tuple[Any, tuple[PermissionRequest, ...]]:
        args = self.tools[tool].parse(raw)
        return args, self.tools[tool].permissions(args, self.cwd)

    async def run(self, tool: str, args: Any) -> ToolResult:
        return await self.tools[tool].execute(args, self.context())

    async def call(self, tool: str, **raw: Any) -> ToolResult:
        args, _ = self.prepare(tool, **raw)
        return await self.run(tool, args)

    async def read(self, name: str, **raw: Any) -> str:
        result = await self.call("read", file_path=name, **raw)
        assert isinstance(result.content, str)
        return result.content

    async def write(self, name: str, content: str) -> ToolResult:
        return await self.call("write", file_path=name, content=content)

    async def edit(self, name: str, old: str, new: str, **raw: Any) -> ToolResult:
        return await self.call("edit", file_path=name, old_string=old, new_string=new, **raw)

    async def patch(self, patch: str) -> ToolResult:
        return await self.call("apply_patch", patch=patch)

    def requests(self, tool: str, **raw: Any) -> tuple[PermissionRequest, ...]:
        return self.prepare(tool, **raw)[1]
