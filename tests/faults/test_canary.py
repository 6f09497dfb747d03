"""Canary keys: wherever a key could come out, none does (X-C02, X-C03).

Three keys of different owners are in the program's environment. Afterwards
every file, everything printed, every command line and environment of a child,
and every request is searched for them, in any spelling. They may be in one
place only: the header of a request to the server that each one is meant for.
"""

import asyncio
import base64
import os
import re
import secrets
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest

from agent_sdk.providers.registry import load_registry
from agent_sdk.testing.faults import FAULTS, Fault
from agent_sdk.testing.mock_server import MockCall, MockRequest, MockScript, MockServer, MockTurn
from agent_sdk.testing.mock_wire import APIS, WireApi
from tests.support.cli import Cli, Finished, Running
from tests.support.kills import children
from tests.support.processes import appear, destroy_leftovers, unique_word
from tests.support.transcripts import checked, result_texts

if sys.platform != "linux":
    pytest.skip("needs /proc", allow_module_level=True)

OPTIONS = ("--allowed-tools", "Read,Edit,Write,Bash")
CORES = ("bash", "-c", 'ulimit -c unlimited && exec "$@"', "bash")
"""Goes before a program that may leave a core file if it does nothing against it."""

DUMP = """
{ env; export -p; tr '\\0' '\\n' < /proc/self/environ; tr '\\0' '\\n' < /proc/$PPID/environ
  app=$(sed -n 's/^PPid:[[:space:]]*//p' /proc/$PPID/status); echo "app=$app"
  tr '\\0' '\\n' < /proc/$app/environ; ls -l /proc/self/fd /proc/$app/fd
  for each in /proc/[0-9]*; do tr '\\0' ' ' < $each/cmdline; echo; done; ps auxeww
} 2>&1 | tee dump.txt
"""
"""Shows everything that a command can see of its surroundings."""


@pytest.fixture(autouse=True)
def _clean_up() -> Iterator[None]:
    yield
    destroy_leftovers()


# ------------------------------------------------------------------------- keys


@dataclass(frozen=True)
class Key:
    """A key of three parts, each of which gives it away.

    It has characters that are escaped in addresses, and in some JSON.
    """

    variable: str
    parts: tuple[str, ...] = field(
        default_factory=lambda: tuple(secrets.token_hex(8) for _ in "abc")
    )

    @property
    def value(self) -> str:
        return f"sk-{self.parts[0]}/{self.parts[1]}+{self.parts[2]}=="

    def pattern(self) -> bytes:
        """Return a pattern of everything by which a part of it can be told."""
        forms = {form for part in self.parts for form in _forms(part)}
        return b"|".join(re.escape(form) for form in forms)


def _forms(part: str) -> Iterator[bytes]:
    raw = part.encode()
    yield from (raw, raw.upper(), raw[::-1], raw.hex().encode(), raw.hex().upper().encode())
    yield from (part.encode("utf-16-le"), part.encode("utf-16-be"))
    for shift in range(3):
        whole = base64.b64encode(b"\0" * shift + raw)
        yield whole[(8 * shift + 5) // 6 : 8 * (shift + len(raw)) // 6]  # whatever is around it


class Canaries:
    """The keys, and the search for them."""

    def __init__(self) -> None:
        self.zpi = Key("ZPI_API_KEY")
        self.anthropic = Key("ANTHROPIC_API_KEY")
        self.openai = Key("OPENAI_API_KEY")
        self.keys = (self.zpi, self.anthropic, self.openai)
        self._pattern = re.compile(b"|".join(key.pattern() for key in self.keys))

    @property
    def variables(self) -> dict[str, str]:
        return {key.variable: key.value for key in self.keys}

    def hits(self, data: bytes | str) -> list[str]:
        """Return where the data holds a key, with what is around it."""
        raw = data.encode() if isinstance(data, str) else data
        return [
            repr(raw[max(0, found.start() - 60) : found.end() + 20])
            for found in self._pattern.finditer(raw)
        ]

    def files(self, root: Path) -> list[str]:
        """Return the files that hold a key, in their names or in their contents."""
        found = []
        for path in root.rglob("*"):
            places = self.hits(os.fsencode(path))
            if path.is_file() and not path.is_symlink():
                places += self.hits(path.read_bytes())
            found += [f"{path}: {place}" for place in places]
        return found

    def request(self, request: MockRequest, *, meant: Key) -> list[str]:
        """Return where a request holds a key other than the header that carries it."""
        headers = dict(request.headers)
        carrier = "x-api-key" if request.api == "anthropic-messages" else "authorization"
        scheme = "" if carrier == "x-api-key" else "Bearer "
        assert headers.pop(carrier) == f"{scheme}{meant.value}"
        return self.hits(msgspec.json.encode([request.path, headers, request.body]))


@pytest.fixture(scope="module")
def canaries() -> Canaries:
    return Canaries()


@pytest.fixture
def cli(tmp_path: Path, canaries: Canaries) -> Cli:
    """A user with all keys, whose temporary files are below the same folder."""
    cli = Cli(tmp_path)
    (tmp_path / "tmp").mkdir()
    cli.variables |= canaries.variables | {"TMPDIR": str(tmp_path / "tmp")}
    return cli


def use(cli: Cli, canaries: Canaries, server: MockServer, api: WireApi) -> None:
    cli.use(server, api, key=canaries.zpi.value)


def bash(command: str) -> MockCall:
    return MockCall(name="bash", input={"command": command})


def clean(canaries: Canaries, cli: Cli, *runs: Finished) -> None:
    """Check that nothing that was printed or stored holds a key."""
    for run in runs:
        assert canaries.hits(run.out) == []
        assert canaries.hits(run.err) == []
    assert canaries.files(cli.home.parent) == []


def sent(canaries: Canaries, server: MockServer, meant: Key) -> None:
    """Check that a server got the key that is meant for it, where it belongs, and no other."""
    assert server.requests
    for request in server.requests:
        assert canaries.request(request, meant=meant) == []


# -------------------------------------------------------------- the search itself


@pytest.mark.parametrize(
    "spell",
    [
        lambda key: key,
        lambda key: quote(key, safe=""),
        lambda key: key.replace("/", "\\/"),
        lambda key: base64.b64encode(f"user:{key}".encode()).decode(),
        lambda key: base64.urlsafe_b64encode(f"x{key}".encode()).decode(),
        lambda key: base64.b64encode(key.encode()).decode(),
        lambda key: key.encode().hex(),
        lambda key: key[:24],
        lambda key: key[-24:],
        lambda key: key[::-1],
    ],
)
def test_search_finds_a_key(
    spell: Callable[[str], str], canaries: Canaries, tmp_path: Path
) -> None:
    for key in canaries.keys:
        (tmp_path / "file").write_text(f"before {spell(key.value)} after")
        assert canaries.files(tmp_path) != []
    (tmp_path / "file").write_text("nothing")
    assert canaries.files(tmp_path) == []


# ---------------------------------------------------------------------- sessions


@pytest.mark.parametrize("api", APIS)
async def test_a_command_that_shows_all_it_can_see(
    api: WireApi, cli: Cli, canaries: Canaries
) -> None:
    script = MockScript(
        turns=(
            MockTurn(text="I will look.", calls=(bash(DUMP),)),
            MockTurn(text="This is all."),
            MockTurn(text="Still here."),
        ),
        key=canaries.zpi.value,
    )
    loud = {"PYTHONASYNCIODEBUG": "1", "PYTHONDEVMODE": "1", "HTTPX_LOG_LEVEL": "trace"}
    async with MockServer(script) as server:
        use(cli, canaries, server, api)
        first = await cli.run(
            *("-p", "Show me.", "--output-format", "stream-json", "--include-partial-messages"),
            *OPTIONS,
            env=loud,
        )
        second = await cli.run("-p", "Go on.", "--continue", env=loud)
        models = await cli.run("models")
        sessions = await cli.run("sessions")
    assert (first.code, second.code, models.code, sessions.code) == (0, 0, 0, 0)
    # It did see its environment, that of its parents, and their command lines.
    shown = (cli.project / "dump.txt").read_text()
    assert f"\nHOME={cli.home}\n" in shown
    assert "ZPI_TASK_ID=" in shown
    assert "\nZPI_BASE_URL=" in shown  # of the program itself, whose key is wiped
    assert "supervisor" in shown
    assert "Show me." in shown
    assert len(result_texts(checked(cli.session))) == 1
    sent(canaries, server, canaries.zpi)
    assert len(server.requests) == 3
    clean(canaries, cli, first, second, models, sessions)


async def test_each_key_goes_to_its_own_server_only(cli: Cli, canaries: Canaries) -> None:
    registry = load_registry(cli.agent_dir)
    models = {p.name: p.models[0].key for p in registry.providers if p.models}
    script = MockScript(turns=(MockTurn(text="Yes."),))
    async with AsyncExitStack() as stack:
        general, anthropic, openai = [
            await stack.enter_async_context(MockServer(script)) for _ in range(3)
        ]
        cli.variables |= {
            "ANTHROPIC_BASE_URL": anthropic.url,
            "OPENAI_BASE_URL": f"{openai.url}/v1",
        }
        runs = [await cli.run("-p", "Hello?", "--model", models["openai"])]
        use(cli, canaries, general, "openai-completions")
        runs.append(await cli.run("-p", "Hello?", "--model", models["anthropic"]))
        for name in [name for name in cli.variables if name.startswith("ZPI_")]:
            del cli.variables[name]
        runs.append(await cli.run("-p", "Hello?", "--model", models["anthropic"]))
    assert [run.text for run in runs] == ["Yes.\n"] * 3
    # The address of ZPI_BASE_URL is asked for every model, with its own key.
    sent(canaries, general, canaries.zpi)
    sent(canaries, anthropic, canaries.anthropic)
    sent(canaries, openai, canaries.openai)
    assert [len(s.requests) for s in (general, anthropic, openai)] == [1, 1, 1]
    clean(canaries, cli, *runs)


@pytest.mark.parametrize("api", APIS)
async def test_a_redirect_gets_no_key(api: WireApi, cli: Cli, canaries: Canaries) -> None:
    async with MockServer(MockScript(turns=(MockTurn(text="Caught."),))) as other:
        path = {"anthropic-messages": "/v1/messages", "openai-responses": "/v1/responses"}
        elsewhere = f"{other.url}{path.get(api, '/v1/chat/completions')}"
        fault = msgspec.structs.replace(FAULTS["redirect"], headers={"location": elsewhere})
        turn = MockTurn(fault=fault.name)
        async with MockServer(MockScript(turns=(turn,)), faults={fault.name: fault}) as server:
            use(cli, canaries, server, api)
            done = await cli.run("-p", "Are you there?")
    assert done.code == 1
    assert other.requests == []
    sent(canaries, server, canaries.zpi)
    clean(canaries, cli, done)


# -------------------------------------------------------------- servers that echo

SPELLINGS: dict[str, Callable[[str], str]] = {
    "plain": lambda key: key,
    "twice": lambda key: f"{key}, {{'authorization': 'Bearer {key}'}}",
    "address": lambda key: f"https://{quote(key, safe='')}@host.example",
    "path": lambda key: f"https://host.example/{quote(key)}",
    "lower_case": lambda key: quote(key, safe="").replace("%2F", "%2f").replace("%3D", "%3d"),
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "basic": lambda key: f"Basic {base64.b64encode(f'user:{key}'.encode()).decode()}",
    "url_base64": lambda key: base64.urlsafe_b64encode(f"x{key}".encode()).decode(),
    "json": lambda key: f"{{'key': '{key}'}}".replace("/", "\\/"),
}
spellings = pytest.mark.parametrize(
    "spell", [pytest.param(spell, id=name) for name, spell in SPELLINGS.items()]
)
outputs = pytest.mark.parametrize(
    ("api", "output"), [*zip(APIS, ("text", "json", "stream-json"), strict=True)]
)


def echo(canaries: Canaries, name: str, said: str) -> Fault:
    """Return a failure whose text is the given one, and whose headers hold the key."""
    headers = {"request-id": f"req-{canaries.zpi.value}", "x-echo": canaries.zpi.value}
    return msgspec.structs.replace(FAULTS[name], name="echo", headers=headers, error=(name, said))


async def failed(
    cli: Cli, canaries: Canaries, fault: Fault, api: WireApi, *words: str
) -> tuple[Finished, MockServer]:
    """Run the program against a server that always fails that way."""
    turn = MockTurn(text="Half of this comes.", fault=fault.name)
    async with MockServer(MockScript(turns=(turn,) * 9), faults={fault.name: fault}) as server:
        use(cli, canaries, server, api)
        done = await cli.run("-p", "Are you there?", *words)
    assert done.code == 1
    sent(canaries, server, canaries.zpi)
    return done, server


@spellings
async def test_a_server_that_echoes_the_key(
    spell: Callable[[str], str], cli: Cli, canaries: Canaries
) -> None:
    said = f"Incorrect key: {spell(canaries.zpi.value)} (end of it)"
    done, _ = await failed(cli, canaries, echo(canaries, "unauthorized", said), APIS[0])
    assert "Incorrect key: " in done.error_line
    assert "(end of it)" in done.error_line  # nothing but the key is taken out
    clean(canaries, cli, done)


@outputs
async def test_unauthorized(api: WireApi, output: str, cli: Cli, canaries: Canaries) -> None:
    fault = echo(canaries, "unauthorized", f"Incorrect key: {canaries.zpi.value} (end of it)")
    done, server = await failed(cli, canaries, fault, api, "--output-format", output)
    assert len(server.requests) == 1
    assert "(end of it)" in done.text + done.complaint
    assert b"(end of it)" in cli.session.read_bytes()
    clean(canaries, cli, done)


@pytest.mark.slow
@outputs
async def test_server_errors(api: WireApi, output: str, cli: Cli, canaries: Canaries) -> None:
    fault = echo(canaries, "server_error", f"Broken: {canaries.zpi.value} (end of it)")
    done, server = await failed(cli, canaries, fault, api, "--output-format", output)
    assert len(server.requests) > 1  # it was tried again, and each failure was told
    assert b"(end of it)" in cli.session.read_bytes()
    clean(canaries, cli, done)


async def test_a_failure_in_the_middle_of_the_stream(cli: Cli, canaries: Canaries) -> None:
    said = {"type": "api_error", "message": f"Broken: {canaries.zpi.value} (end of it)"}
    event = b"event: error\ndata: %b\n\n" % msgspec.json.encode({"type": "error", "error": said})
    fault = Fault(name="echo", expect=("http",), cut="second_delta", raw=event)
    done, _ = await failed(cli, canaries, fault, APIS[0], "--output-format", "stream-json")
    assert "(end of it)" in done.text
    clean(canaries, cli, done)


# ----------------------------------------------------------------------- crashes


def looked_at(running: Running) -> bytes:
    """Return the command lines and environments of a program and all below it."""
    found = b""
    waiting = [running.process.pid]
    for pid in waiting:
        found += Path(f"/proc/{pid}/cmdline").read_bytes()
        found += Path(f"/proc/{pid}/environ").read_bytes()
        waiting += [child for child, _ in children(pid)]
    assert len(waiting) >= 3  # itself, its supervisor, and a command
    return found


def core_files(*folders: Path) -> list[Path]:
    return [
        path
        for folder in folders
        for path in folder.rglob("core*")
        if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"
    ]


async def crash(cli: Cli, number: int) -> tuple[Finished, bytes]:
    """Let a program die by a signal while it runs a command; return what could be seen of it."""
    word = unique_word()
    turn = MockTurn(text="I will wait.", calls=(bash(f"exec -a {word} sleep 600"),))
    async with MockServer(MockScript(queue=(turn,))) as server:
        cli.variables |= {"ZPI_BASE_URL": f"{server.url}/v1"}
        env = {"PYTHONFAULTHANDLER": "1"}
        async with cli.start("-p", "Wait.", *OPTIONS, before=CORES, env=env) as running:
            await appear(word)
            seen = looked_at(running)
            running.send(number)
            done = await running.finish()
    assert done.code == -number
    return done, seen


@pytest.fixture
def heeded() -> Iterator[None]:
    """Give SIGQUIT its meaning: shells let what they start in the background ignore it."""
    before = signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGQUIT, before)


@pytest.mark.parametrize("number", [signal.SIGABRT, signal.SIGSEGV, signal.SIGQUIT])
async def test_a_crash_leaves_no_core_and_no_key(
    number: int, cli: Cli, canaries: Canaries, heeded: None
) -> None:
    cli.variables |= {"ZPI_API_TYPE": "openai-completions", "ZPI_MODEL": "mock"}
    done, seen = await crash(cli, number)
    assert b"ZPI_BASE_URL=" in seen
    assert canaries.hits(seen) == []
    if number != signal.SIGQUIT:
        assert "Fatal Python error" in done.complaint
    assert core_files(cli.home.parent) == []
    clean(canaries, cli, done)


async def test_a_program_that_does_nothing_against_it_leaves_a_core(tmp_path: Path) -> None:
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if pattern.startswith(("|", "/")):
        pytest.skip("this machine puts core files elsewhere")
    words = (*CORES, sys.executable, "-c", "import os; os.abort()")
    process = await asyncio.create_subprocess_exec(
        *words, cwd=tmp_path, stderr=asyncio.subprocess.DEVNULL
    )
    assert await process.wait() == -signal.SIGABRT
    assert core_files(tmp_path) != []
