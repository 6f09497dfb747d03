"""Pictures of the transcript and its cards: ``python -m tests.gui.shots_chat FOLDER``."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtWidgets import QApplication

from agent_sdk.events.wire import SessionError, ToolCompleted, ToolFailed, ToolPending, ToolRunning
from desktop.bridge.messages import PermissionsState, TranscriptMessage
from desktop.gui import i18n
from desktop.gui.chat.chat_page import ChatPage
from desktop.gui.chat.row_layout import Anchor
from desktop.gui.icons import Icons
from desktop.gui.theme import Theme
from tests.support import chat_samples as make
from tests.support.fake_bridge import FakeBridge

DIFF = """--- a/pkg/server.py
+++ b/pkg/server.py
@@ -10,7 +10,9 @@ def serve(port):
     loop = asyncio.new_event_loop()
-    server = Server(port)
+    server = Server(port, limit=64)
+    server.on_error = log_error
     loop.run_until_complete(server.start())
     return server
"""

ANSWER = """I have found the cause. The server **never closes** its sockets, see `Server.stop`:

1. `accept` hands out a connection,
2. nothing keeps it,
   - so nothing can close it,
3. and the limit of *64* is reached.

## What I changed

```python
class Server:
    \"\"\"Serves until it is stopped.\"\"\"

    def __init__(self, port: int, *, limit: int = 64) -> None:
        self._port = port  # TCP
        self._open: set[Connection] = set()

    async def stop(self) -> None:
        for connection in self._open:
            await connection.close(timeout=2.5)
        print(f"closed {len(self._open)} connections")
```

| Setting | Before | After |
|---|---|---|
| connections kept | no | yes |
| time to stop | never | 2.5 s |

> It was like this since the first version.

More about it: https://docs.python.org/3/library/asyncio-stream.html, and ~~nothing~~ the tests.
"""

CHINESE = """已经找到原因:服务器**从不关闭**套接字,见 `Server.stop`。

1. `accept` 交出连接,
2. 没有任何地方保存它,
3. 因此到达了 64 个连接的上限。

```bash
# 运行测试
pytest -q tests/ --maxfail=1
```

| 设置 | 之前 | 之后 |
|---|---|---|
| 保存连接 | 否 | 是 |
| 停止所需时间 | 永不 | 2.5 秒 |
"""


class Shots:
    """Takes the pictures."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        instance = QApplication.instance()
        self.app = instance if isinstance(instance, QApplication) else QApplication(sys.argv)
        self.theme = Theme(app=self.app, mode="light")
        self.icons = Icons(theme=self.theme)

    def page(self, *, width: int = 900, height: int = 860) -> tuple[ChatPage, FakeBridge]:
        """Make a page of a size."""
        bridge = FakeBridge()
        page = ChatPage(
            bridge=bridge,
            icons=self.icons,
            open_link=lambda _url: None,
            composer_empty=lambda: True,
            clock=time.monotonic,
        )
        page.setStyleSheet("ChatPage { background: palette(window); }")
        page.resize(width, height)
        page.show()
        return page, bridge

    def take(self, page: ChatPage, name: str) -> None:
        """Let it settle, and save it."""
        page.view.flush()
        end = time.monotonic() + 0.25
        while time.monotonic() < end:
            self.app.processEvents()
        page.grab().save(str(self.folder / f"{name}.png"))

    def scene(self, name: str, build: Callable[["Shots", str], ChatPage]) -> None:
        """Save a scene in light and dark."""
        modes = ("light", "dark")
        for mode in modes:
            self.theme.set_mode("light" if mode == "light" else "dark")
            page = build(self, name)
            self.take(page, f"{name}_{mode}")
            page.close()
            page.deleteLater()
        self.theme.set_mode("light")


def conversation(shots: Shots, _name: str, *, width: int = 900, height: int = 1100) -> ChatPage:
    """An ordinary turn."""
    page, _ = shots.page(width=width, height=height)
    page.show_session(make.opened(_messages()))
    return page


def _messages() -> list[TranscriptMessage]:
    bash = ToolCompleted(
        input={"command": "pytest -q tests/test_server.py"},
        output="....F\n1 failed, 4 passed in 0.31s\nexit code 1",
        seconds=3.2,
    )
    return [
        make.user("u1", "The server hangs after some hours. Find out why, and mend it."),
        make.answer(
            "r1.1",
            make.reasoning("r1.1.0", "First look at how connections end."),
            make.tool(
                "r1.1.1",
                "read",
                ToolCompleted(input={"file_path": "pkg/server.py"}, output="1\tx", seconds=0.02),
            ),
            make.tool("r1.1.2", "bash", bash),
            make.tool("r1.1.3", "edit", make.edited("pkg/server.py", DIFF, plus=2, minus=1)),
        ),
        make.answer("r1.2", make.text("r1.2.0", ANSWER)),
    ]


def unfolded(shots: Shots, _name: str) -> ChatPage:
    """Every kind of card, unfolded."""
    page, _ = shots.page(height=1500)
    messages = _messages()
    failed = ToolFailed(
        input={"command": "rm -rf build"}, output="The user refused this call.", denied=True
    )
    grep = ToolCompleted(
        input={"pattern": "close\\(", "path": "pkg"}, output="pkg/server.py:12", seconds=0.4
    )
    crashed = ToolFailed(
        input={"file_path": "no.py", "old_string": "x = 1", "new_string": "x = 2"},
        output="'no.py' does not exist.",
        ran=True,
        seconds=0.01,
    )
    messages[2] = make.answer(
        "r1.2",
        make.tool("r1.2.1", "bash", failed),
        make.tool("r1.2.2", "grep", grep),
        make.tool("r1.2.3", "edit", crashed),
        error="aborted",
    )
    page.show_session(make.opened(messages))
    for entry in range(page.model.count):
        for row in page.view.places.rows(entry):
            row.expanded = row.kind in ("tool", "reasoning")
            row.width = 0
    page.view.to_bottom()
    return page


def streaming(shots: Shots, _name: str) -> ChatPage:
    """A run that goes on."""
    page, bridge = shots.page()
    page.show_session(make.opened([make.user("u1", "Run the tests.")]))
    events = make.Events()
    running = ToolRunning(
        input={
            "command": "make -j2 all && ./run-everything --with-a-long-list --of-options and/arguments/that/do/not/fit"
        },
        output="",
    )
    bridge.tell(events.running(), events.begin("r1.1"))
    bridge.tell(
        events.part("r1.1", make.text("r1.1.0", "")), events.delta("r1.1", "r1.1.0", ANSWER[:760])
    )
    bridge.tell(events.part("r1.1", make.tool("r1.1.1", "bash", running)))
    bridge.tell(
        events.delta(
            "r1.1", "r1.1.1", "".join(f"[{n}/80] cc -O2 -c part{n}.c\n" for n in range(1, 45))
        )
    )
    bridge.tell(
        events.part("r1.1", make.tool("r1.1.2", "read", ToolPending(input={"file_path": "a.py"})))
    )
    page.view.flush()
    for row in page.view.places.rows(1):
        row.expanded = row.key == "r1.1.1"
        row.width = 0
    page.view.to_bottom()
    return page


def permission_bash(shots: Shots, _name: str) -> ChatPage:
    """A question about a command with characters that hide something."""
    page, bridge = shots.page(height=620)
    command = "git push --force origin main && rm -rf \u202e/tmp/\u200bx"
    page.show_session(make.opened([make.user("u1", "Publish it.")], status="waiting"))
    events = make.Events()
    part = make.tool("r1.1.0", "bash", ToolPending(input={"command": command}))
    bridge.tell(events.running(), events.begin("r1.1"), events.part("r1.1", part))
    bridge.publish(
        PermissionsState(
            waiting=(
                make.asked(
                    "bash",
                    part.call_id,
                    patterns=(command,),
                    can_always=True,
                    always=("bash git push*",),
                ),
            )
        )
    )
    return page


def permission_diff(shots: Shots, _name: str, *, width: int = 900) -> ChatPage:
    """A question about a long edit, one of two."""
    page, bridge = shots.page(height=700, width=width)
    page.show_session(make.opened([make.user("u1", "Change it.")], status="waiting"))
    events = make.Events()
    old = "\n".join(f"    value_{n} = compute({n})" for n in range(6))
    new = "\n".join(f"    value_{n} = compute({n}, cached=True)" for n in range(16))
    given = {"file_path": "/home/me/project/pkg/values.py", "old_string": old, "new_string": new}
    part = make.tool("r1.1.0", "edit", ToolPending(input=given))
    bridge.tell(events.running(), events.begin("r1.1"), events.part("r1.1", part))
    first = make.asked(
        "edit",
        part.call_id,
        patterns=("/home/me/project/pkg/values.py",),
        can_always=True,
        always=("edit /home/me/project/*",),
    )
    second = make.asked("edit", "other", patterns=("/x",), request_id="q2")
    bridge.publish(PermissionsState(waiting=(first, second)))
    return page


def permission_protected(shots: Shots, _name: str) -> ChatPage:
    """A question about something protected."""
    page, bridge = shots.page(height=520)
    page.show_session(make.opened([make.user("u1", "Install a hook.")], status="waiting"))
    events = make.Events()
    given = {"file_path": ".git/hooks/pre-commit", "content": "#!/bin/sh\nexec make check\n"}
    part = make.tool("r1.1.0", "write", ToolPending(input=given))
    bridge.tell(events.running(), events.begin("r1.1"), events.part("r1.1", part))
    bridge.publish(
        PermissionsState(
            waiting=(
                make.asked(
                    "write",
                    part.call_id,
                    patterns=("/home/me/project/.git/hooks/pre-commit",),
                    protected=True,
                ),
            )
        )
    )
    return page


def expired(shots: Shots, _name: str) -> ChatPage:
    """After a restart: the run was cut, and its question with it."""
    page, _ = shots.page(height=520)
    part = make.tool("r1.1.0", "bash", ToolPending(input={"command": "make deploy"}))
    question = make.asked("bash", part.call_id, patterns=("make deploy",))
    messages = [make.user("u1", "Deploy."), make.answer("r1.1", part)]
    page.show_session(
        make.opened(messages, status="interrupted", can_continue=True, expired=(question,))
    )
    return page


def error(shots: Shots, _name: str) -> ChatPage:
    """A run that failed, a notice, and cut answers."""
    page, bridge = shots.page(height=620)
    page.show_session(
        make.opened(
            [
                make.user("u1", "Explain the code."),
                make.answer("r0.1", make.text("r0.1.0", "It begins with"), error="aborted"),
                make.user("u2", "Go on."),
            ]
        )
    )
    events = make.Events()
    bridge.tell(
        events.running(),
        *events.message(
            make.answer(
                "r1.1", make.text("r1.1.0", "The code has three"), error="overloaded", stop="error"
            )
        ),
    )
    bridge.tell(
        events.of(
            SessionError(
                session_id="s1",
                code="context_long",
                text="The history is long: older tool output is left out.",
                level="warning",
            )
        )
    )
    bridge.tell(
        events.of(
            SessionError(
                session_id="s1",
                code="provider",
                text="api.example.com answered 529: overloaded. It was tried 5 times in 48 s.",
            )
        ),
        events.idle("error"),
    )
    return page


def chinese(shots: Shots, _name: str, *, width: int = 900) -> ChatPage:
    """All of it in Chinese."""
    page, _ = shots.page(width=width, height=900)
    messages = _messages()
    messages[0] = make.user("u1", "服务器运行几个小时后会卡住。请找出原因并修复。")
    messages[2] = make.answer("r1.2", make.text("r1.2.0", CHINESE))
    page.show_session(make.opened(messages, status="interrupted", can_continue=True))
    return page


def jump(shots: Shots, _name: str) -> ChatPage:
    """A reader who has scrolled up, among messages that are not loaded."""
    page, bridge = shots.page(height=560)
    bridge.hold = True
    page.show_session(make.opened(_messages() * 1, before=[400] * 200))
    page.view.flush()
    page.view.go_to(Anchor(197, 0, 0))
    bridge.tell(*make.Events().message(make.answer("r9.1", make.text("r9.1.0", "More."))))
    return page


def main(folder: str) -> None:
    """Take all pictures."""
    shots = Shots(Path(folder))
    shots.scene("conversation", conversation)
    shots.scene("unfolded", unfolded)
    shots.scene("streaming", streaming)
    shots.scene("permission_bash", permission_bash)
    shots.scene("permission_diff", permission_diff)
    shots.scene("permission_protected", permission_protected)
    shots.scene("expired", expired)
    shots.scene("error", error)
    shots.scene("jump", jump)
    shots.scene("narrow", lambda s, n: conversation(s, n, width=480, height=1300))
    shots.scene("wide", lambda s, n: conversation(s, n, width=1400))
    shots.scene("narrow_permission", lambda s, n: permission_diff(s, n, width=480))
    i18n.set_language("zh")
    shots.scene("chinese", chinese)
    shots.scene("chinese_permission", permission_diff)
    shots.scene("chinese_error", error)
    i18n.set_language("en")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "shots")
