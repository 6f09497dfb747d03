"""Renders the window's screens to PNG files: ``python -m tests.gui.shots [FOLDER]``.

The window is the real one, offscreen, with the real host process behind it and
a mocked model. Each look (theme, language, width) is a process of its own in a
fresh home folder; ``readme`` is the look of the picture in README.md.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QSettings
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from agent_sdk.testing.mock_server import MockRule, MockScript
from agent_sdk.testing.mock_wire import MockCall, MockTurn
from desktop.app import Window, prepare
from desktop.gui.chat.tool_card import ToolCard
from desktop.gui.settings.settings_page import APPEARANCE, GENERAL, MODELS
from desktop.paths import DataPaths
from tests.support.host import environment
from tests.support.window import MockThread

LOOKS = (
    ("light", "en", 1400),
    ("dark", "en", 900),
    ("light", "zh", 900),
    ("dark", "zh", 480),
    ("light", "en", 480),
)
README = ("light", "en", 1180)
HEIGHT = 800
README_HEIGHT = 860
PATIENCE = 30.0
SETTLE_MS = 350

BEFORE = '''"""Prices of a basket."""

VAT = 0.19


def total(prices: list[float]) -> float:
    """Return the sum with tax, in euros."""
    return round(sum(prices) * (1 + VAT))
'''
OLD = "    return round(sum(prices) * (1 + VAT))"
NEW = "    cents = sum(round(price * 100) for price in prices)\n    return round(cents * (1 + VAT)) / 100"

EN = {
    "ask": "The totals in prices.py are whole euros. Please fix that.",
    "look": "I'll look at how the total is computed first.",
    "fix": "`round()` without digits gives whole euros. I add up in cents and round once, at the end.",
    "done": (
        "The total now keeps its cents:\n\n"
        "- prices are added up in **whole cents**, so no error of floating point is carried along,\n"
        "- the tax is rounded **once**, at the end.\n\n"
        "```python\n>>> total([9.99, 5.01])\n17.85\n```\n\n"
        "Before, this gave `18`. Shall I add a test for it?"
    ),
    "explain": "How does rounding work in Python?",
    "fail": "And with decimals?",
}
ZH = {
    "ask": "prices.py 算出来的总价都是整数欧元,请修复。",
    "look": "我先看看总价是怎么计算的。",
    "fix": "`round()` 不带位数会得到整数欧元。我改为按分累加,最后只舍入一次。",
    "done": (
        "现在总价会保留到分:\n\n"
        "- 价格按**整数分**累加,不会累积浮点误差;\n"
        "- 税额只在最后**舍入一次**。\n\n"
        "```python\n>>> total([9.99, 5.01])\n17.85\n```\n\n"
        "之前的结果是 `18`。需要我补一个测试吗?"
    ),
    "explain": "Python 的舍入是怎么工作的?",
    "fail": "用 decimal 呢?",
}
LECTURE = (
    """Python rounds **half to even**:

| Call | Result |
|---|---|
| `round(0.5)` | `0` |
| `round(1.5)` | `2` |
| `round(2.675, 2)` | `2.67` |

```python
from decimal import ROUND_HALF_UP, Decimal

def euros(value: str) -> Decimal:
    return Decimal(value).quantize(Decimal("0.01"), ROUND_HALF_UP)
```

"""
    + "More of it follows, word by word, as slowly as a model would say it. " * 40
)


def script(words: dict[str, str]) -> MockScript:
    """Return what the mocked model says."""
    read = MockCall(name="read", input={"file_path": "prices.py"})
    edit = MockCall(
        name="edit", input={"file_path": "prices.py", "old_string": OLD, "new_string": NEW}
    )
    check = MockCall(
        name="bash",
        input={"command": "python3 -c 'import prices; print(prices.total([9.99, 5.01]))'"},
    )
    return MockScript(
        rules=(
            MockRule(
                when=words["ask"],
                turns=(
                    MockTurn(text=words["look"], calls=(read,)),
                    MockTurn(text=words["fix"], calls=(edit,)),
                    MockTurn(calls=(check,)),
                    MockTurn(text=words["done"]),
                ),
            ),
            MockRule(when=words["explain"], turns=(MockTurn(text=LECTURE, deltas=900, rate=100),)),
            MockRule(when=words["fail"], turns=(MockTurn(fault="bad_request"),)),
        )
    )  # fmt: skip


class Camera:
    """A window to take pictures of.

    Args:
        app: The application.
        home: The user's home folder.
        look: Theme, language and width.
        folder: Where the pictures go.
    """

    def __init__(
        self, *, app: QApplication, home: Path, look: tuple[str, str, int], folder: Path
    ) -> None:
        self._look = look
        self._folder = folder
        store = QSettings(str(home / "window.ini"), QSettings.Format.IniFormat)
        store.setValue("look/theme", look[0])
        store.setValue("look/language", look[1])
        self.window = Window(app=app, paths=DataPaths(data=home / "data"), store=store)
        self.main = self.window.main
        self.window.start()
        self.main.resize(look[2], README_HEIGHT if look == README else HEIGHT)
        self.until(lambda: self.window.bridge.epoch, "the host greets")
        self.until(lambda: self.main.sidebar is not None, "the window is shown")

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until the condition holds."""
        end = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > end:
                self.take("trouble")
                raise SystemExit(f"{self._look}: in {PATIENCE} s it was not so: {what}")
            QTest.qWait(10)

    def take(self, name: str, *, settle: int = SETTLE_MS) -> None:
        """Take a picture, once everything has found its place."""
        QTest.qWait(settle)
        theme, language, width = self._look
        path = self._folder / f"{name}-{theme}-{language}-{width}.png"
        if not self.main.grab().save(str(path)):
            raise SystemExit(f"The picture {str(path)!r} could not be written.")

    def status(self) -> str:
        """Return the session's status, as the side bar shows it."""
        row = self.main.area.link.row
        return row.status if row else ""

    def open(self, project: Path) -> None:
        """Open a folder and begin a session."""
        self.main.navigator.open_folder(str(project))
        self.until(lambda: self.main.navigator.current is not None, "a session")

    def ask(self, text: str) -> None:
        """Send a prompt."""
        link = self.main.area.link
        self.until(lambda: link.can_send(text), "a prompt can be sent")
        link.submit(text)

    def asked(self, tool: str) -> None:
        """Wait for a question about a tool."""
        request = self.window.chat.request
        self.until(lambda: request.asked and request.asked.tool == tool, f"a question about {tool}")
        self.until(request.once.isEnabled, "it can be answered")

    def unfold(self, tool: str) -> None:
        """Unfold the card of a tool's call."""
        for card in list(self.window.chat.view.pool.visible()):
            if isinstance(card, ToolCard) and card.item and card.item.part.tool == tool:
                card.header.click()

    def close(self) -> None:
        """End the host, and take the window away."""
        gone: list[bool] = []
        self.window.stop(lambda: gone.append(True))
        self.until(lambda: gone, "the host ends")
        self.main.hide()


def first_start(camera: Camera) -> None:
    """Pictures of a window whose user has nothing set up."""
    camera.until(lambda: camera.main.pages.currentWidget() is camera.main.welcome, "the first page")
    camera.take("first-start", settle=2000)
    for name, at in (("models", MODELS), ("general", GENERAL), ("appearance", APPEARANCE)):
        camera.main.show_settings(at)
        camera.take(f"settings-{name}")
    camera.main.show_settings(MODELS)
    camera.main.settings_page.models.edit(None)
    camera.take("settings-form")


def main_job(camera: Camera, project: Path, words: dict[str, str], *, all_of_it: bool) -> None:
    """Pictures of the main job: from a prompt to an edited file."""
    camera.open(project)
    if all_of_it:
        camera.take("empty")
    camera.ask(words["ask"])
    request = camera.window.chat.request
    camera.asked("edit")
    if all_of_it:
        camera.take("permission")
    request.once.click()
    camera.asked("bash")
    if all_of_it:
        camera.take("permission-command")
    request.once.click()
    camera.until(lambda: camera.status() == "idle", "the run ends")
    camera.main.area.composer.edit.setFocus()
    QTest.qWait(SETTLE_MS)  # the window has its final size before a card is unfolded
    camera.unfold("edit")
    camera.take("diff" if all_of_it else "readme")


def troubles(camera: Camera, words: dict[str, str]) -> None:
    """Pictures of an answer that arrives, one that fails, and a host that is lost."""
    camera.main.navigator.new()
    camera.until(lambda: camera.window.chat.model.count == 0, "a new session")
    camera.ask(words["explain"])
    model = camera.window.chat.model
    camera.until(lambda: model.count >= 2, "an answer")
    camera.take("streaming", settle=2500)
    camera.main.area.link.submit(words["fail"])
    camera.take("queued")
    camera.main.area.link.stop()
    camera.until(lambda: camera.status() not in ("running", "waiting"), "the run stops")
    camera.take("stopped")
    camera.main.navigator.new()
    camera.until(lambda: camera.window.chat.model.count == 0, "a new session")
    camera.ask(words["fail"])
    camera.until(lambda: camera.status() == "failed", "the run fails")
    camera.take("error")
    process = camera.window.bridge._process
    lost: list[str] = []
    camera.window.bridge.host_lost.connect(lost.append)
    if process is not None:
        process.kill()
    camera.until(lambda: lost, "the host is lost")
    camera.take("host-lost", settle=30)


def take_all(folder: Path, look: tuple[str, str, int], *, readme: bool) -> None:
    """Take all pictures of one look; the process is for nothing else."""
    prepare(os.environ)
    app = QApplication(sys.argv[:1])
    app.setQuitOnLastWindowClosed(False)
    home = Path(os.environ["HOME"])
    project = home / "shop"
    project.mkdir()
    (project / "prices.py").write_text(BEFORE, encoding="utf-8")
    words = ZH if look[1] == "zh" else EN
    if not readme:
        camera = Camera(app=app, home=home, look=look, folder=folder)
        first_start(camera)
        camera.close()
    with MockThread(script(words)) as mock:
        os.environ |= {
            "ZPI_API_TYPE": "openai-completions",
            "ZPI_BASE_URL": f"{mock.server.url}/v1",
            "ZPI_MODEL": "my-model" if readme else "mock",
            "ZPI_API_KEY": "sk-not-a-key",
        }
        camera = Camera(app=app, home=home, look=look, folder=folder)
        main_job(camera, project, words, all_of_it=not readme)
        if not readme:
            troubles(camera, words)
        camera.close()


def main(arguments: list[str]) -> int:
    """Take the pictures of every look; return the exit code."""
    if len(arguments) > 1:
        theme, language, pixels, kind = arguments[1:]
        take_all(Path(arguments[0]), (theme, language, int(pixels)), readme=kind == "readme")
        return 0
    folder = Path(*arguments[:1] or ["build/shots"]).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for theme, language, width in (*LOOKS, README):
        kind = "readme" if (theme, language, width) == README else "all"
        with tempfile.TemporaryDirectory() as home:
            command = [sys.executable, "-m", "tests.gui.shots", str(folder)]
            command += [theme, language, str(width), kind]
            around = environment(Path(home), {"QT_QPA_PLATFORM": "offscreen"})
            failed += subprocess.run(command, env=around, check=False).returncode != 0
    print(f"The pictures are in {folder}.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
