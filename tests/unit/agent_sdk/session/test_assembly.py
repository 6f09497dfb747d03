"""What a session is made of: tools, plugins, commands, prompt; nothing is run."""

from collections.abc import Sequence

import pytest

from agent_sdk.core.errors import InvalidInput, PluginConflict
from agent_sdk.loop.types import Tool, ToolContext
from agent_sdk.plugins.types import PluginCommand, SessionPlugin
from agent_sdk.providers.base import PromptSection
from agent_sdk.providers.messages import Json
from agent_sdk.resources.commands import PromptCommand
from agent_sdk.resources.instructions import Instruction
from agent_sdk.resources.loader import Resources
from agent_sdk.resources.problems import ResourceProblem
from agent_sdk.session.assembly import (
    Assembly,
    PromptInput,
    ToolChoice,
    assemble_session,
)
from tests.support.loop_fakes import FakeTool


async def never(args: Json, context: ToolContext) -> str:
    raise AssertionError("putting a session together runs no tool")


def named(name: str) -> FakeTool:
    return FakeTool(name, never)


BUILTINS: tuple[Tool, ...] = tuple(
    named(name) for name in ("read", "write", "edit", "bash", "glob", "todo")
)


def assemble(
    choice: ToolChoice | None = None,
    *,
    plugins: Sequence[SessionPlugin] = (),
    resources: Resources | None = None,
) -> Assembly:
    return assemble_session(
        cwd="/project", builtins=BUILTINS, choice=choice, plugins=plugins, resources=resources
    )


def names(assembly: Assembly) -> list[str]:
    return [tool.name for tool in assembly.tools]


def section(assembly: Assembly, name: str) -> str:
    return next((s.text for s in assembly.sections if s.name == name), "")


class TestTools:
    def test_four_are_there_without_being_asked_for(self) -> None:
        assert names(assemble()) == ["read", "write", "edit", "bash"]

    def test_others_are_added_by_name_in_either_spelling(self) -> None:
        assert names(assemble(ToolChoice(tools=["todo", "Read"]))) == ["read", "todo"]

    def test_what_plugins_and_the_caller_add_is_there(self) -> None:
        plugin = SessionPlugin(id="acme", version="1", tools=(named("ask"),))
        choice = ToolChoice(custom_tools=[named("mine")])
        assert names(assemble(choice, plugins=[plugin])) == [
            "read", "write", "edit", "bash", "ask", "mine",
        ]  # fmt: skip

    def test_without_the_default_ones_the_added_stay(self) -> None:
        choice = ToolChoice(no_tools=True, custom_tools=[named("mine")])
        assert names(assemble(choice)) == ["mine"]

    def test_excluded_ones_are_left_out(self) -> None:
        assert names(assemble(ToolChoice(exclude_tools=["Bash"]))) == ["read", "write", "edit"]

    def test_one_that_is_not_in_force_may_be_excluded(self) -> None:
        assert "glob" not in names(assemble(ToolChoice(exclude_tools=["glob"])))

    @pytest.mark.parametrize(
        ("choice", "message"),
        [
            (ToolChoice(tools=["raed"]), "'raed'"),
            (ToolChoice(exclude_tools=["raed"]), "'raed'"),
            (ToolChoice(tools=["read", "Read"]), "twice"),
            (ToolChoice(tools=["read"], exclude_tools=["read"]), "both named and excluded"),
            (ToolChoice(tools=["read"], no_tools=True), "no_tools"),
            (ToolChoice(custom_tools=[named("read")]), "'read'"),
            (ToolChoice(custom_tools=[named("Read")]), "'Read'"),
            (ToolChoice(tool_overrides=[named("mine")]), "no built-in tool"),
            (
                ToolChoice(custom_tools=[named("a"), named("a")]),
                "two tools named 'a'",
            ),
        ],
    )
    def test_what_cannot_be_is_refused(self, choice: ToolChoice, message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            assemble(choice)

    def test_an_override_takes_the_place_of_a_built_in_one(self) -> None:
        mine = named("bash")
        assembly = assemble(ToolChoice(tool_overrides=[mine]))
        assert names(assembly) == ["read", "write", "edit", "bash"]
        assert assembly.tools[3] is mine

    def test_two_overrides_of_one_tool_are_refused(self) -> None:
        plugin = SessionPlugin(id="acme", version="1", tool_overrides=(named("bash"),))
        assert names(assemble(plugins=[plugin])) == ["read", "write", "edit", "bash"]
        with pytest.raises(InvalidInput, match="'acme'"):
            assemble(ToolChoice(tool_overrides=[named("bash")]), plugins=[plugin])

    def test_a_plugin_and_the_caller_may_not_add_the_same(self) -> None:
        plugin = SessionPlugin(id="acme", version="1", tools=(named("mine"),))
        with pytest.raises(PluginConflict, match="'mine'"):
            assemble(ToolChoice(custom_tools=[named("mine")]), plugins=[plugin])


def command_file(name: str, body: str = "From a file: $1") -> PromptCommand:
    return PromptCommand(name=name, description="", body=body, path=f"/c/{name}.md")


class TestCommands:
    def test_files_and_plugins_bring_them(self) -> None:
        plugin = SessionPlugin(
            id="acme", version="1", commands=(PluginCommand(name="init", body="Begin $ARGUMENTS."),)
        )
        assembly = assemble(
            plugins=[plugin], resources=Resources(commands=(command_file("review"),))
        )
        assert assembly.expand("/init here now") == "Begin here now."
        assert assembly.expand("/review a.py") == "From a file: a.py"
        assert assembly.notices == ()

    def test_other_prompts_stay_as_they_are(self) -> None:
        for prompt in ("Say /review", "/unknown thing", "/", "", "/etc/hosts is odd"):
            assert assemble().expand(prompt) == prompt

    @pytest.mark.parametrize("name", ["init", "compact"])
    def test_a_file_of_a_taken_name_is_told(self, name: str) -> None:
        plugin = SessionPlugin(
            id="acme", version="1", commands=(PluginCommand(name="init", body="Begin."),)
        )
        assembly = assemble(plugins=[plugin], resources=Resources(commands=(command_file(name),)))
        assert [notice.code for notice in assembly.notices] == ["command_taken"]
        assert f"/c/{name}.md" in assembly.notices[0].text
        assert "From a file" not in assembly.expand(f"/{name}")


class TestPrompt:
    def test_sections_stay_in_their_order(self) -> None:
        plugin = SessionPlugin(id="acme", version="1", instructions=("Be brief.", "Be kind."))
        instruction = Instruction(path="/project/AGENTS.md", source="project", text="Use tabs.")
        assembly = assemble_session(
            cwd="/project",
            builtins=BUILTINS,
            plugins=[plugin],
            resources=Resources(instructions=(instruction,)),
            custom_instructions="Speak Chinese.",
        )
        assert [s.name for s in assembly.sections] == [
            "instructions", "plugin:acme", "custom_instructions", "project_context", "environment",
        ]  # fmt: skip
        assert section(assembly, "plugin:acme") == "Be brief.\n\nBe kind."
        assert "Use tabs." in section(assembly, "project_context")
        assert "read, write, edit, bash" in section(assembly, "environment")

    def test_a_text_takes_the_place_of_the_own_instructions(self) -> None:
        assembly = assemble_session(
            cwd="/project", builtins=BUILTINS, system_prompt="You are a cat."
        )
        assert section(assembly, "instructions") == "You are a cat."
        assert section(assembly, "environment")

    def test_a_callback_is_given_what_is_final_and_makes_all_of_it(self) -> None:
        given: list[PromptInput] = []

        def prompt(parts: PromptInput) -> list[PromptSection]:
            given.append(parts)
            return [PromptSection("all", "mine")]

        assembly = assemble_session(
            cwd="/project",
            builtins=BUILTINS,
            choice=ToolChoice(tools=["bash"]),
            system_prompt=prompt,
        )
        assert assembly.sections == (PromptSection("all", "mine"),)
        assert [tool.name for tool in given[0].tools] == ["bash"]
        assert given[0].default[0].name == "instructions"

    def test_the_same_parts_give_the_same_bytes(self) -> None:
        assert assemble().sections == assemble().sections

    def test_what_is_wrong_with_files_is_told(self) -> None:
        problem = ResourceProblem(
            kind="skill", source="user", path="/s", text="It is broken.", hint="Mend it."
        )
        assembly = assemble(resources=Resources(problems=(problem,)))
        assert [notice.text for notice in assembly.notices] == ["'/s': It is broken. Mend it."]
