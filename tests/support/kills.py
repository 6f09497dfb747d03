"""A real ``zpi`` that is killed while it works, and the count of what it has done.

The mocked model gives each part of a session calls of its own, with a number
each. What a call does can be counted afterwards, so that a call that was lost
or came twice shows: a command adds a line to a file in one write, an edit makes
a file longer, a write makes a file that was not there.
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agent_sdk.testing.mock_server import MockCall, MockRule, MockScript, MockTurn
from agent_sdk.testing.mock_wire import WireApi
from tests.support.cli import Cli
from tests.support.processes import STATES_OF_THE_DEAD

if TYPE_CHECKING and sys.platform == "win32":
    raise ImportError  # there is no SIGKILL

PARTS = 8
"""Most runs of one session; the last one is not killed."""

LARGE = 150_000
"""Characters that a large write has: more than a pipe takes at once."""

Tool = Literal["bash", "edit", "write"]

# --------------------------------------------------------------------- script


@dataclass(frozen=True)
class Step:
    """A call with an effect that can be counted."""

    number: int
    tool: Tool
    call: MockCall

    @property
    def call_id(self) -> str:
        return self.call.id


def call_id(number: int) -> str:
    return f"call_{number}"


def steps_of(part: int, word: str) -> list[list[Step]]:
    """Return the calls of a part, answer by answer."""
    first, second, third, fourth, fifth = range(part * 10 + 1, part * 10 + 6)
    return [
        [_edit(first), _write(second, large=part % 3 == 1), _bash(third, word)],
        [_bash(fourth, word), _edit(fifth)],
    ]


def _edit(number: int) -> Step:
    words = {"file_path": edited(number), "old_string": "x|", "new_string": "xx|"}
    return Step(number, "edit", MockCall(name="edit", input=words, id=call_id(number)))


def _write(number: int, *, large: bool) -> Step:
    words = {"file_path": written(number), "content": content_of(number, large=large)}
    return Step(number, "write", MockCall(name="write", input=words, id=call_id(number)))


def content_of(number: int, *, large: bool) -> str:
    return f"{number}\n" * (LARGE // 3 if large else 1)


def edited(number: int) -> str:
    return f"edit-{number}.txt"


def written(number: int) -> str:
    return f"write-{number}.txt"


def _bash(number: int, word: str) -> Step:
    effect = f"printf '{number}\\n' >> effects.log"
    sleep = f"exec -a {word} sleep 300"
    shapes = (
        f"{effect}; sleep 0.05",
        f"sleep 0.08; {effect}; sleep 0.08",
        f"({sleep}) & ({sleep}) > /dev/null 2>&1 & {effect}; sleep 0.05",
        f"env -i setsid bash -c '{sleep}' > /dev/null 2>&1 & {effect}; sleep 0.05",
        f"bash -c 'trap \"\" TERM; while :; do sleep 0.2; done' {word} > /dev/null 2>&1 &"
        f" {effect}; sleep 0.05",
    )
    command = {"command": shapes[(number // 10 + number) % len(shapes)]}
    return Step(number, "bash", MockCall(name="bash", input=command, id=call_id(number)))


def prompt_of(part: int, *, short: bool = False) -> str:
    return f"[part-{part:02d}] {'Come to an end.' if short else 'Do what is due.'}"


def last_words(part: int) -> str:
    return f"This was part {part}."


def script(word: str) -> MockScript:
    """Return what the model says; it knows the part by the prompt that came last."""
    return MockScript(
        # A killed part's prompt may stand before the next one with no answer in between.
        rules=tuple(
            MockRule(when=prompt_of(part, short=short), turns=_turns(part, word, short=short))
            for part in range(PARTS, 0, -1)
            for short in (True, False)
        )
    )


def _turns(part: int, word: str, *, short: bool) -> tuple[MockTurn, ...]:
    turns = []
    for at, steps in enumerate(steps_of(part, word)[1 if short else 0 :]):
        calls: list[MockCall] = []
        for step in steps:
            if step.tool == "edit":
                calls.append(_read_before(step))
            calls.append(step.call)
        turns.append(_turn(f"Part {part}, answer {at}: I will see to it.", *calls))
    if part % 2 and not short:
        calls = [_look(part, at) for at in range(2)]
        turns.insert(1, _turn(f"Part {part}: I will look around.", *calls))
    turns.append(MockTurn(text=last_words(part), delay=0.01))
    return tuple(turns)


def _turn(text: str, *calls: MockCall) -> MockTurn:
    return MockTurn(text=text, deltas=6, rate=160, delay=0.01, calls=calls)


def _read_before(step: Step) -> MockCall:
    name = edited(step.number)
    return MockCall(name="read", input={"file_path": name}, id=f"read_{step.number}")


def _look(part: int, at: int) -> MockCall:
    name = edited(part * 10 + 1)
    return MockCall(name="read", input={"file_path": name}, id=f"look_{part}_{at}")


# -------------------------------------------------------------------- effects


def prepare(project: Path) -> None:
    """Lay out the files that will be edited."""
    for part in range(1, PARTS + 1):
        for step in (s for steps in steps_of(part, "") for s in steps):
            if step.tool == "edit":
                (project / edited(step.number)).write_text("x|\n")


def effects(project: Path, step: Step) -> int:
    """Return how often a call has had its effect; nothing may be half done."""
    if step.tool == "bash":
        log = project / "effects.log"
        lines = log.read_text().splitlines() if log.exists() else []
        return lines.count(str(step.number))
    if step.tool == "edit":
        text = (project / edited(step.number)).read_text()
        assert text.strip("x") == "|\n", f"{edited(step.number)} holds {text!r}"
        return text.count("x") - 1
    path = project / written(step.number)
    if not path.exists():
        return 0
    assert path.read_text() == step.call.input["content"], f"{path.name} is not whole"
    return 1


def imprint(project: Path) -> dict[str, tuple[int, int, int]]:
    """Return what would change if a file were written again, even with the same content."""
    found = {}
    for path in project.iterdir():
        if path.name.startswith(("edit-", "write-")):
            stat = path.stat()
            found[path.name] = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
    return found


# ------------------------------------------------------------------ processes

Process = tuple[int, bytes]
"""A process id and when the process started, which together name one process for ever."""


def _bytes_of(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:  # it has ended, or is closed to us
        return b""


def _alive(pid: int) -> Process | None:
    fields = _bytes_of(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    if len(fields) < 20 or fields[0] in STATES_OF_THE_DEAD:
        return None
    return pid, fields[19]


def children(pid: int) -> set[Process]:
    """Return the living children of a process."""
    found: set[Process] = set()
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        for child in _bytes_of(f"/proc/{pid}/task/{thread}/children").split():
            if process := _alive(int(child)):
                found.add(process)
    return found


def _belongs(pid: int, word: bytes) -> bool:
    return any(
        word in data
        for data in (
            _bytes_of(f"/proc/{pid}/cmdline"),
            _bytes_of(f"/proc/{pid}/environ"),
            _folder(pid),
        )
    )


def _folder(pid: int) -> bytes:
    try:
        return os.fsencode(os.readlink(f"/proc/{pid}/cwd"))
    except OSError:
        return b""


def survivors(word: str, known: set[Process]) -> list[str]:
    """Return what still lives of a program: by the word anywhere on it, or known before."""
    left = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        process = _alive(int(name))
        if process and (process in known or _belongs(process[0], word.encode())):
            left.append(f"{name}: {_bytes_of(f'/proc/{name}/cmdline')!r}")
    return left


async def all_gone(
    word: str, known: set[Process], *, since: float | None = None, seconds: float = 2.0
) -> float:
    """Wait until nothing of a program lives; return after how many seconds that was so.

    Args:
        word: What its processes carry.
        known: Processes that are known to be its own.
        since: When it ended, on the monotonic clock; now by default.
        seconds: How long its processes may live on.

    Raises:
        AssertionError: If something still does after that time.
    """
    begun = time.monotonic() if since is None else since
    # A look at all processes takes long; while one that is known lives, there is no need of it.
    while any(_alive(pid) == (pid, start) for pid, start in known) or survivors(word, known):
        assert time.monotonic() - begun < seconds, survivors(word, known)
        await asyncio.sleep(0.02)
    return time.monotonic() - begun


def kill(pid: int, *, frozen: bool) -> set[Process]:
    """Kill a process and return the children that it had, which the kill must not reach.

    Args:
        pid: The process.
        frozen: Stop it first, so that no child can be started unseen.
    """
    if frozen:
        os.kill(pid, signal.SIGSTOP)
        until = time.monotonic() + 0.2
        while _bytes_of(f"/proc/{pid}/stat").rpartition(b")")[2].split()[:1] not in (
            [b"T"],
            [b"Z"],
        ):
            if time.monotonic() > until:
                break
    known = children(pid)
    os.kill(pid, signal.SIGKILL)
    return known


# ------------------------------------------------------- what was acknowledged


@dataclass
class Output:
    """What a program printed: whole lines only."""

    lines: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, data: bytes) -> "Output":
        return cls([json.loads(line) for line in data.split(b"\n")[:-1]])

    @property
    def session_id(self) -> str:
        return str(self.lines[0]["session_id"]) if self.lines else ""

    @property
    def acknowledged(self) -> list[dict[str, Any]]:
        """The lines that promise something: what they tell is stored."""
        return [m for m in self.lines if m["type"] in ("assistant", "user", "result")]

    @property
    def results(self) -> set[str]:
        """Ids of the calls whose result was printed."""
        return {
            block["tool_use_id"]
            for message in self.lines
            if message["type"] == "user"
            for block in message["message"]["content"]
            if block["type"] == "tool_result"
        }


def missing(output: Output, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the acknowledged lines that the session's records do not have."""
    by_uuid = {record["uuid"]: record for record in records}
    lost = []
    place: tuple[str, int] = ("", 0)  # an answer takes a line for each block, the first has its id
    for message in output.acknowledged:
        if message["type"] == "result":
            assert message["subtype"] == "success"
            told = (message["num_turns"], "completed")
            if told not in [
                (r["turns"], r["status"]) for r in records if r["type"] == "run" and "turns" in r
            ]:
                lost.append(message)
            continue
        if message["uuid"] in by_uuid:
            place = (message["uuid"], 0)
        record = by_uuid.get(place[0], {})
        content = [_shown(block) for block in record.get("message", {}).get("content", [])]
        (block,) = message["message"]["content"]
        if record.get("type") != message["type"] or content[place[1] : place[1] + 1] != [block]:
            lost.append(message)
        place = (place[0], place[1] + 1)
    return lost


def _shown(block: dict[str, Any]) -> dict[str, Any]:
    """Return a stored block as it is printed: what only its provider understands is left out."""
    return {name: value for name, value in block.items() if name != "providerState"}


# -------------------------------------------------------- what the model heard


def heard(api: WireApi, body: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return a request's calls and results in order: ``call``/``result``/``user``, id, text."""
    if api == "openai-responses":
        return list(_heard_responses(body["input"]))
    if api == "openai-completions":
        return list(_heard_chat(body["messages"]))
    return list(_heard_messages(body["messages"]))


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return str(content)


def _heard_responses(items: list[dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
    for item in items:
        kind = item.get("type", "message")
        if kind == "function_call":
            yield "call", item["call_id"], item["arguments"]
        elif kind == "function_call_output":
            yield "result", item["call_id"], _text(item["output"])
        elif item.get("role") == "user":
            yield "user", "", _text(item["content"])


def _heard_chat(messages: list[dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
    for message in messages:
        for call in message.get("tool_calls", ()):
            yield "call", call["id"], call["function"]["arguments"]
        if message["role"] == "tool":
            yield "result", message["tool_call_id"], _text(message["content"])
        elif message["role"] == "user":
            yield "user", "", _text(message["content"])


def _heard_messages(messages: list[dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
    for message in messages:
        content = message["content"]
        for block in content if isinstance(content, list) else [{"type": "text", "text": content}]:
            if block["type"] == "tool_use":
                yield "call", block["id"], json.dumps(block["input"])
            elif block["type"] == "tool_result":
                yield "result", block["tool_use_id"], _text(block["content"])
            elif message["role"] == "user":
                yield "user", "", block["text"]


def check_pairs(said: list[tuple[str, str, str]]) -> None:
    """Check that each call has exactly one result, before anything else is said."""
    waiting: list[str] = []
    seen: Counter[str] = Counter()
    for kind, name, _ in said:
        if kind == "call":
            waiting.append(name)
            seen[name] += 1
        elif kind == "result":
            waiting.remove(name)
        else:
            assert waiting == [], "a user speaks while calls wait for their results"
    assert waiting == []
    assert set(seen.values()) <= {1}


# -------------------------------------------------------------- session files


def session_file(cli: Cli) -> Path | None:
    """Return the file of the only session in which something was saved."""
    found = [path for path in cli.sessions if b"\n" in path.read_bytes()]
    assert len(found) <= 1, found
    return found[0] if found else None


def whole_records(path: Path | None) -> list[dict[str, Any]]:
    """Return the records of a file whose last line may not be whole."""
    if path is None:
        return []
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def stored_calls(records: list[dict[str, Any]]) -> tuple[list[str], set[str], dict[str, Any]]:
    """Return the calls that were asked for, those that were begun, and their results' records."""
    asked: list[str] = []
    results: dict[str, Any] = {}
    for record in records:
        for block in record.get("message", {}).get("content", []):
            if block["type"] == "tool_use":
                asked.append(block["id"])
            elif block["type"] == "tool_result":
                assert block["tool_use_id"] not in results, "a call has two results"
                results[block["tool_use_id"]] = {**record, "block": block}
    begun = {r["toolUseId"] for r in records if r["type"] == "tool_journal"}
    return asked, begun, results
