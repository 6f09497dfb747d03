"""A host's own store, tools and override: a session is killed, resumed, compacted, rewound."""

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from agent_sdk import host
from agent_sdk.contrib.sql.database import SqlDatabase
from agent_sdk.contrib.sql.storage import sql_storage
from agent_sdk.testing.provider import ScriptedProvider, answer, text, tool_call


class Says:
    description, parameters, metadata = "Says a text.", {"type": "object"}, host.ToolMetadata()
    parse, permissions = staticmethod(dict), staticmethod(lambda args, cwd: ())

    def __init__(self, name, says):
        self.name, self.says = name, says

    async def execute(self, args, context):
        return host.ToolResult(content=self.says)


async def main(folder, resumed, script):
    model, ids = host.Model(id="m", provider="p", api="anthropic-messages"), host.RandomIds()
    database = await SqlDatabase.open(f"sqlite:///{folder / 'host.db'}")
    created = await host.create_agent_session(
        storage=sql_storage(database, user="me", session_id="s", ids=ids, lease_seconds=1),
        checkpoints=host.FolderCheckpoints(folder / "before"), cwd=folder, agent_dir=folder / "a",
        model=model, provider=ScriptedProvider(*script), custom_instructions="Be brief.",
        custom_tools=[Says("weather", "rain " * 2000)], tool_overrides=[Says("bash", "No shell.")],
        rules=[host.Rule("edit", "*", "allow")],
    )  # fmt: skip
    async with created.session as session:
        if not resumed:
            await session.prompt("Ask for the weather and write it down.")
        print("resumed:", [n.code for n in created.notices], (folder / "notes.txt").read_text())
        print("went on:", (await session.go_on()).status, (await session.prompt("Dry?")).status)
        request = host.CompactionRequest(protected_queries=1)
        print("compacted:", (await session.context.compact(request)).status)
        to = (await created.checkpoints.checkpoints())[0].uuid
        await created.checkpoints.commit(await created.checkpoints.preview(to))
        print("rewound:", not (folder / "notes.txt").exists(), session.manager.state.usage)
    await database.close()


if sys.argv[1:]:
    note = answer(tool_call("write", {"file_path": "notes.txt", "content": "rain"}))
    script = [answer(tool_call("weather")), note, lambda _: os.kill(os.getpid(), 9)]
    asyncio.run(main(Path(sys.argv[1]), False, script))
else:
    with tempfile.TemporaryDirectory() as name:
        print("killed:", subprocess.run([sys.executable, __file__, name], check=False).returncode)
        asyncio.run(asyncio.sleep(2))  # the lease of a program that died runs out
        script = [answer(text("It rains.")), answer(text("No.")), answer(text("It rains a lot."))]
        asyncio.run(main(Path(name), True, script))
