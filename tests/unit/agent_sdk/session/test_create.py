"""A session, created: what is given, what is made, what is closed, what is refused."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_sdk.core.aio import TaskOwner
from agent_sdk.core.errors import ConfigurationError, CredentialMissing, InvalidInput, ModelNotFound
from agent_sdk.core.ids import RandomIds, SystemClock
from agent_sdk.loop.types import Rule, ToolFinished
from agent_sdk.plugins.types import SessionPlugin
from agent_sdk.providers.messages import TextBlock, UserMessage
from agent_sdk.providers.models import Model
from agent_sdk.resources.loader import ResourceChanges, ResourceLoader
from agent_sdk.session.create import create_agent_session, preview_session
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.options import PreparedTools
from agent_sdk.session.resources import resource_watcher
from agent_sdk.session.run_ports import RequestPorts
from agent_sdk.testing.provider import ScriptedProvider, answer, text, tool_call
from tests.support.loop_fakes import FakeTool
from tests.support.sessions import MODEL, in_memory, on_disk


async def never(*_: object) -> str:
    raise AssertionError("this is not run")


@pytest.fixture
def here(tmp_path: Path) -> dict[str, Any]:
    """A folder, a home and a ZPI folder of its own, without a key."""
    for name in ("project", "home", "agent"):
        (tmp_path / name).mkdir()
    return {
        "cwd": tmp_path / "project",
        "agent_dir": tmp_path / "agent",
        "environ": {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"},
    }


def scripted(*script: Any) -> dict[str, Any]:
    return {"model": MODEL, "provider": ScriptedProvider(*script)}


class TestRunning:
    async def test_it_runs_in_its_folder_and_stores_there(self, here: dict[str, Any]) -> None:
        call = tool_call("write", {"file_path": "a.txt", "content": "hello\n"})
        created = await create_agent_session(
            **here,
            **scripted(answer(call), answer(text("done"))),
            rules=[Rule("edit", "*", "allow")],
        )
        async with created.session as session:
            assert session.tool_names == ("read", "write", "edit", "bash")
            end = await session.prompt("Write it.")
            assert end.status == "completed"
            path = created.manager.path
        assert (here["cwd"] / "a.txt").read_text() == "hello\n"
        assert path is not None
        assert path.is_relative_to(here["agent_dir"] / "sessions")
        assert created.manager.read_only  # it was made here, so it was closed here

    async def test_nobody_to_ask_is_a_denial(self, here: dict[str, Any]) -> None:
        call = tool_call("write", {"file_path": "a.txt", "content": "x"})
        created = await create_agent_session(
            **here, **scripted(answer(call), answer(text("no"))), persist=False
        )
        async with created.session as session:
            assert (await session.prompt("Write it.")).denials == 1
        assert not (here["cwd"] / "a.txt").exists()

    async def test_what_a_tool_changed_can_be_taken_back(self, here: dict[str, Any]) -> None:
        (here["cwd"] / "a.txt").write_text("before\n")
        created = await create_agent_session(
            **here,
            **scripted(
                answer(tool_call("read", {"file_path": "a.txt"})),
                answer(tool_call("write", {"file_path": "a.txt", "content": "after\n"})),
                answer(text("done")),
            ),
            rules=[Rule("edit", "*", "allow")],
        )
        async with created.session as session:
            await session.prompt("Change it.")
            assert (here["cwd"] / "a.txt").read_text() == "after\n"
            (place,) = await created.checkpoints.checkpoints()
            preview = await created.checkpoints.preview(place.uuid)
            assert preview.possible
            await created.checkpoints.commit(preview)
            assert (here["cwd"] / "a.txt").read_text() == "before\n"

    async def test_skills_of_the_user_can_be_read_without_a_question(
        self, here: dict[str, Any], tmp_path: Path
    ) -> None:
        skill = tmp_path / "home" / ".agents" / "skills" / "pdf" / "SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text("---\nname: pdf\ndescription: About PDF.\n---\nUse the tool.\n")
        provider = ScriptedProvider(
            answer(tool_call("read", {"file_path": str(skill)})), answer(text("ok"))
        )
        created = await create_agent_session(**here, model=MODEL, provider=provider, persist=False)
        seen: list[ToolFinished] = []
        created.session.subscribe(
            lambda event: seen.append(event) if isinstance(event, ToolFinished) else None
        )
        async with created.session as session:
            await session.prompt("Read the skill.")
        assert "Use the tool." in str(seen[0].result.content)
        assert "About PDF." in "".join(s.text for s in provider.requests[0].system)


class TestHistory:
    async def test_a_given_manager_comes_back_and_stays_open(self, here: dict[str, Any]) -> None:
        manager = in_memory(here.pop("cwd"))
        created = await create_agent_session(
            **here, **scripted(answer(text("hi"))), session_manager=manager
        )
        assert created.manager is manager
        await created.session.prompt("Hello.")
        await created.session.aclose()
        assert not manager.read_only
        await manager.close()

    async def test_another_folder_than_its_own_is_refused(
        self, here: dict[str, Any], tmp_path: Path
    ) -> None:
        manager = in_memory(tmp_path / "home")
        with pytest.raises(InvalidInput, match="belongs to"):
            await create_agent_session(**here, **scripted(), session_manager=manager)
        assert not manager.read_only

    async def test_what_the_session_recorded_is_resumed(self, here: dict[str, Any]) -> None:
        sessions = here["agent_dir"] / "sessions"
        manager = await on_disk(here["cwd"], sessions)
        reasoning = Model(
            id="m", provider="p", api="anthropic-messages", thinking={"low": "low", "high": "high"}
        )
        first = await create_agent_session(
            **{**here, "cwd": None},
            model=reasoning,
            provider=ScriptedProvider(answer(text("one"))),
            session_manager=manager,
            permission_mode="acceptEdits",
            thinking_level="high",
        )
        await first.session.prompt("One.")
        await first.session.aclose()
        await manager.close()
        again = await SessionManager.resume(
            session_id=manager.session_id,
            sessions_dir=sessions,
            ids=RandomIds(),
            clock=SystemClock(),
        )
        provider = ScriptedProvider(answer(text("two")))
        second = await create_agent_session(
            **{**here, "cwd": None}, model=reasoning, provider=provider, session_manager=again
        )
        await second.session.prompt("Two.")
        assert second.session.permissions.mode == "acceptEdits"
        assert provider.requests[0].thinking_level == "high"
        users = [m for m in provider.requests[0].messages if isinstance(m, UserMessage)]
        assert [b.text for m in users for b in m.content if isinstance(b, TextBlock)] == [
            "One.",
            "Two.",
        ]
        await second.session.aclose()
        await again.close()

    async def test_a_recorded_bypass_does_not_come_back(self, here: dict[str, Any]) -> None:
        manager = in_memory(here.pop("cwd"))
        first = await create_agent_session(
            **here,
            **scripted(answer(text("one"))),
            session_manager=manager,
            permission_mode="bypassPermissions",
        )
        await first.session.prompt("One.")
        await first.session.aclose()
        second = await create_agent_session(**here, **scripted(), session_manager=manager)
        assert second.session.permissions.mode == "default"
        await second.session.aclose()
        await manager.close()

    async def test_a_recorded_model_that_is_gone_is_named(self, here: dict[str, Any]) -> None:
        manager = in_memory(here.pop("cwd"))
        first = await create_agent_session(
            **here, **scripted(answer(text("one"))), session_manager=manager
        )
        await first.session.prompt("One.")
        await first.session.aclose()
        with pytest.raises(ModelNotFound, match="'p/m'"):
            await create_agent_session(**here, session_manager=manager)
        await manager.close()


class TestModel:
    async def test_none_is_an_error_that_says_what_to_set(self, here: dict[str, Any]) -> None:
        with pytest.raises(ConfigurationError) as caught:
            await create_agent_session(**here)
        assert "ANTHROPIC_API_KEY" in str(caught.value)
        assert list(here["agent_dir"].rglob("*.jsonl")) == []

    async def test_a_name_without_a_key_is_refused(self, here: dict[str, Any]) -> None:
        with pytest.raises(CredentialMissing):
            await create_agent_session(**here, model="claude-sonnet-5-5")

    async def test_a_model_itself_does_not_get_around_the_key(self, here: dict[str, Any]) -> None:
        model = Model(id="claude-sonnet-5-5", provider="anthropic", api="anthropic-messages")
        with pytest.raises(CredentialMissing):
            await create_agent_session(**here, model=model)

    async def test_the_first_that_has_a_key_is_taken(self, here: dict[str, Any]) -> None:
        here["environ"]["OPENAI_API_KEY"] = "sk-test-only"
        created = await create_agent_session(**here, persist=False)
        assert created.session.model.provider == "openai"
        await created.session.aclose()


class TestRequests:
    async def test_the_owner_checks_and_changes_each_request(self, here: dict[str, Any]) -> None:
        provider = ScriptedProvider(
            answer(tool_call("read", {"file_path": "no"})), answer(text("x"))
        )
        turns: list[int] = []

        async def check(turn: int) -> None:
            turns.append(turn)

        created = await create_agent_session(
            **here,
            model=MODEL,
            provider=provider,
            persist=False,
            requests=RequestPorts(
                check=check, change=lambda r: msgspec.structs.replace(r, thinking_level="low")
            ),
        )
        async with created.session as session:
            assert (await session.prompt("Read.")).status == "completed"
        assert turns == [1, 2]
        assert [r.thinking_level for r in provider.requests] == ["low", "low"]

    async def test_a_check_that_fails_ends_the_run_before_the_request(
        self, here: dict[str, Any]
    ) -> None:
        async def check(turn: int) -> None:
            raise ConfigurationError("The budget is used up.")

        provider = ScriptedProvider(answer(text("never")))
        created = await create_agent_session(
            **here,
            model=MODEL,
            provider=provider,
            persist=False,
            requests=RequestPorts(check=check),
        )
        async with created.session as session:
            end = await session.prompt("Go.")
        assert (end.status, end.error) == ("error", "The budget is used up.")
        assert provider.requests == []


class TestOptions:
    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"modle": MODEL}, "'model'"),
            ({"session": None}, "no option"),
            ({"provider": ScriptedProvider()}, "model that it connects to"),
            ({"cwd": "/nowhere/at/all"}, "/nowhere/at/all"),
            ({"setting_sources": ["nobody"]}, "'nobody'"),
            ({"tools": ["raed"]}, "'raed'"),
        ],
    )
    async def test_what_cannot_be_is_refused_and_leaves_nothing(
        self, here: dict[str, Any], wrong: dict[str, Any], message: str
    ) -> None:
        options = {**here, **({} if "provider" in wrong else scripted()), **wrong}
        with pytest.raises(InvalidInput, match=message):
            await create_agent_session(**options)
        assert list(here["agent_dir"].rglob("*.jsonl")) == []

    async def test_a_manager_and_the_choice_of_one_exclude_each_other(
        self, here: dict[str, Any]
    ) -> None:
        manager = in_memory(here["cwd"])
        with pytest.raises(InvalidInput, match="persist"):
            await create_agent_session(**here, **scripted(), session_manager=manager, persist=False)


class TestResources:
    async def test_tools_may_depend_on_what_was_found(self, here: dict[str, Any]) -> None:
        (here["cwd"] / "AGENTS.md").write_text("Use tabs.\n")
        loaders: list[ResourceLoader] = []

        async def prepare(loader: ResourceLoader) -> PreparedTools:
            loaders.append(loader)
            return PreparedTools(
                custom_tools=[FakeTool(str(len(loader.load().instructions)), never)],
                tools=["read", "1"],
            )

        created = await create_agent_session(
            **here, **scripted(), persist=False, prepare_tools=prepare
        )
        assert created.session.tool_names == ("read", "1")
        assert loaders == [created.loader]
        await created.session.aclose()

    async def test_a_refresh_is_used_from_the_next_run_on(self, here: dict[str, Any]) -> None:
        provider = ScriptedProvider(answer(text("one")), answer(text("two")))
        created = await create_agent_session(**here, model=MODEL, provider=provider, persist=False)
        async with created.session as session:
            await session.prompt("One.")
            assert not await created.refresh()
            (here["cwd"] / "AGENTS.md").write_text("Use tabs.\n")
            assert (await created.refresh()).instructions
            await session.prompt("Two.")
        first, second = ("".join(s.text for s in r.system) for r in provider.requests)
        assert "Use tabs." not in first
        assert "Use tabs." in second

    async def test_files_can_be_watched(self, here: dict[str, Any]) -> None:
        provider = ScriptedProvider(answer(text("one")))
        created = await create_agent_session(**here, model=MODEL, provider=provider, persist=False)
        seen = asyncio.Event()

        def changed(changes: ResourceChanges) -> None:
            assert changes.instructions
            created.reassemble()
            seen.set()

        async with TaskOwner(name="test") as owner, created.session as session:
            resource_watcher(
                created.loader, owner=owner, changed=changed, failed=lambda problem: None
            ).start()
            (here["cwd"] / "AGENTS.md").write_text("Use tabs.\n")
            await asyncio.wait_for(seen.wait(), 20)
            await session.prompt("One.")
        assert "Use tabs." in "".join(s.text for s in provider.requests[0].system)

    async def test_no_source_reads_nothing(self, here: dict[str, Any]) -> None:
        (here["cwd"] / "AGENTS.md").write_text("Use tabs.\n")
        assembly = await preview_session(**here, setting_sources=[])
        assert "Use tabs." not in "".join(s.text for s in assembly.sections)


class TestPreview:
    async def test_it_is_what_the_session_would_be(self, here: dict[str, Any]) -> None:
        (here["cwd"] / "AGENTS.md").write_text("Use tabs.\n")
        options: dict[str, Any] = {
            **here,
            "tools": ["read", "todo", "mine"],
            "custom_tools": [FakeTool("mine", never)],
            "plugins": [SessionPlugin(id="acme", version="1", instructions=("Be brief.",))],
            "custom_instructions": "Speak Chinese.",
        }
        preview = await preview_session(**options)
        created = await create_agent_session(**options, **scripted(), persist=False)
        assert preview.sections == created.assembly.sections
        assert [t.name for t in preview.tools] == list(created.session.tool_names)
        await created.session.aclose()

    async def test_it_writes_nothing_and_needs_no_model(self, here: dict[str, Any]) -> None:
        before = sorted(here["cwd"].parent.rglob("*"))
        assembly = await preview_session(**here)
        assert [tool.name for tool in assembly.tools] == ["read", "write", "edit", "bash"]
        assert sorted(here["cwd"].parent.rglob("*")) == before
