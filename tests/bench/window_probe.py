"""The window under measurement: ``python -m tests.bench.window_probe SCENARIO BEGUN``.

It runs ``desktop.app.main`` as ``zpi-desktop`` does, with the real host process
behind it, watches its own event loop, and prints what it found as one line of
JSON. ``BEGUN`` is the monotonic time at which the process was started.
"""

import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtWidgets import QApplication, QWidget
from typing_extensions import override

import desktop.app
from agent_sdk.events.wire import TextPart

BEAT_MS = 4
"""Milliseconds between two beats; short enough that a gap is not mistaken by much."""

REST_SECONDS = 3.0
SETTLED = 3.0
"""Seconds after which a window that was just opened has nothing more to prepare."""

PATIENCE = 120.0
STEPS = 400
WHEEL = 300
PROMPT = "Please do the bench task"

Step = Callable[[], bool] | float
"""What a scenario waits for: something to become true, or seconds."""


class Pulse:
    """Looks how long the GUI thread does not come round to its event loop.

    Attributes:
        gaps: Milliseconds from one beat to the next.
        work: Milliseconds of the GUI thread's CPU time meanwhile: what of a gap
            is ZPI's own, whatever else the machine does.
    """

    def __init__(self) -> None:
        self.gaps: list[float] = []
        self.work: list[float] = []
        self._last = self._cpu = 0.0
        self._timer = QTimer()
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(BEAT_MS)
        self._timer.timeout.connect(self._beat)

    def start(self) -> None:
        self.gaps, self.work = [], []
        self._last, self._cpu = time.monotonic(), time.thread_time()
        self._timer.start()

    def stop(self) -> dict[str, float]:
        self._timer.stop()
        gaps, work = sorted(self.gaps), sorted(self.work)
        return {
            "largest_gap_ms": gaps[-1],
            "gaps_over_50": sum(gap > 50 for gap in gaps),
            "largest_work_ms": work[-1],
            "work_over_50": sum(each > 50 for each in work),
        }

    def _beat(self) -> None:
        now, cpu = time.monotonic(), time.thread_time()
        self.gaps.append((now - self._last) * 1000)
        self.work.append((cpu - self._cpu) * 1000)
        self._last, self._cpu = now, cpu


class Frames(QObject):
    """Notes when the window is painted; ``first`` is called at the first time."""

    def __init__(self, window: QWidget) -> None:
        super().__init__()
        self.times: list[float] = []
        window.installEventFilter(self)

    @override
    def eventFilter(self, watched: QObject, event: QEvent, /) -> bool:
        # The window draws all that has changed when it is asked for an update.
        if event.type() in (QEvent.Type.UpdateRequest, QEvent.Type.Paint):
            self.times.append(time.monotonic())
        return False

    def since(self, begun: float) -> dict[str, float]:
        times = [each for each in self.times if each >= begun]
        gaps = sorted((b - a) * 1000 for a, b in itertools.pairwise(times))
        seconds = max(times[-1] - times[0], 1e-9) if times else 1.0
        return {
            "frames": len(times),
            "frames_per_second": len(times) / seconds,
            "median_frame_gap_ms": gaps[len(gaps) // 2] if gaps else 0.0,
            "largest_frame_gap_ms": gaps[-1] if gaps else 0.0,
            "frame_gaps_over_50": sum(gap > 50 for gap in gaps),
        }


class Events(QObject):
    """Counts events of the whole application, by kind.

    Attributes:
        counts: How many there were.
        timers: Whose timers they were.
    """

    def __init__(self) -> None:
        super().__init__()
        self.counts = {"timers": 0, "paints": 0, "others": 0}
        self.timers: list[str] = []

    @override
    def eventFilter(self, watched: QObject, event: QEvent, /) -> bool:
        kind = event.type()
        if kind == QEvent.Type.Timer:
            self.counts["timers"] += 1
            self.timers.append(f"{type(watched).__name__} {watched.objectName()}".strip())
        elif kind in (QEvent.Type.Paint, QEvent.Type.UpdateRequest):
            self.counts["paints"] += 1
        else:
            self.counts["others"] += 1
        return False


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used; Linux only."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream:
        fields = stream.read().rpartition(")")[2].split()
    ticks = 100  # a second, in what Linux tells of processes
    return (int(fields[11]) + int(fields[12])) / ticks


def proportional_mb(pid: int) -> float:
    """Return a process's memory, what it shares counted by its share, in MB."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as stream:
        line = next(line for line in stream if line.startswith("Pss:"))
    return int(line.split()[1]) / 1024


class Probe:
    """One scenario in a window that was just put together."""

    def __init__(self, *, window: "desktop.app.Window", scenario: str, begun: float) -> None:
        self.window = window
        self.begun = begun
        self.found: dict[str, Any] = {}
        self.pulse = Pulse()
        self.frames = Frames(window.main)
        self._steps: Iterator[Step] = getattr(self, f"_{scenario}")()
        self._wait: Step = 0.0
        self._since = time.monotonic()
        self._timer = QTimer()
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._go_on)
        self._timer.start(10)

    @property
    def host_pid(self) -> int:
        process = self.window.bridge._process
        return process.processId() if process else 0

    def _go_on(self) -> None:
        waited = time.monotonic() - self._since
        over = waited >= self._wait if isinstance(self._wait, float) else self._wait()
        if not over:
            if waited > PATIENCE:
                self._end({"trouble": f"nothing more happened; until then: {self.found}"})
            return
        try:
            self._wait = next(self._steps)
        except StopIteration:
            self._end(self.found)
            return
        self._since = time.monotonic()
        if isinstance(self._wait, float):  # nothing polls while the window rests
            self._timer.stop()
            QTimer.singleShot(int(self._wait * 1000), self._wake)

    def _wake(self) -> None:
        self._wait = 0.0
        self._timer.start(10)

    def _end(self, found: dict[str, Any]) -> None:
        self._timer.stop()
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
        sys.stdout.flush()
        app = QApplication.instance()
        assert app is not None
        self.window.stop(app.quit)

    # -------------------------------------------------------------- conditions

    def _listed(self) -> bool:
        state = self.window.main.navigator._state
        return state.projects is not None and state.models is not None

    def _can_send(self) -> bool:
        return self.window.main.area.link.can_send("text")

    def _in_session(self) -> bool:
        return self.window.main.navigator.current is not None

    def _idle(self) -> bool:
        model = self.window.chat.model
        return model.count >= 2 and not self.window.main.area.link.running

    def _send(self) -> None:
        composer = self.window.main.area.composer
        composer.edit.setPlainText(PROMPT)
        self.window.main.area.link.submit(PROMPT)
        composer.edit.clear()

    def _new_session(self) -> Iterator[Step]:
        yield self._listed
        self.window.main.navigator.open_folder(os.environ["BENCH_PROJECT"])
        yield self._in_session
        yield self._can_send

    # --------------------------------------------------------------- scenarios

    def _start(self) -> Iterator[Step]:
        yield lambda: bool(self.frames.times)
        self.found["first_paint_ms"] = (self.frames.times[0] - self.begun) * 1000
        self.found["first_paint_cpu_ms"] = time.process_time() * 1000
        yield lambda: bool(self.window.bridge.epoch)
        self.found["greeted_ms"] = (time.monotonic() - self.begun) * 1000
        yield from self._new_session()
        self.found["first_prompt_ms"] = (time.monotonic() - self.begun) * 1000

    def _ordinary(self) -> Iterator[Step]:
        yield from self._new_session()
        self._send()
        yield self._idle
        yield 2.0
        before = cpu_seconds(os.getpid()), cpu_seconds(self.host_pid)
        events = Events()
        app = QApplication.instance()
        assert app is not None
        app.installEventFilter(events)
        yield REST_SECONDS
        app.removeEventFilter(events)
        # Two are the bench's own: the end of the rest, and what goes on then.
        events.counts["timers"] -= 2
        del events.timers[-2:]
        self.found.update(events.counts, whose=events.timers)
        self.found["focus"] = type(QApplication.focusWidget()).__name__
        self.found["gui_rest_cpu_ms"] = (cpu_seconds(os.getpid()) - before[0]) * 1000
        self.found["host_rest_cpu_ms"] = (cpu_seconds(self.host_pid) - before[1]) * 1000
        self.found["gui_mb"] = proportional_mb(os.getpid())
        self.found["host_mb"] = proportional_mb(self.host_pid)

    def _long(self) -> Iterator[Step]:
        main, view = self.window.main, self.window.chat.view
        yield self._listed
        state = main.navigator._state
        yield lambda: os.environ["BENCH_SESSION"] in state.sessions
        yield SETTLED
        self.pulse.start()
        begun = time.monotonic()
        main.navigator.open(os.environ["BENCH_SESSION"])
        yield self._in_session
        shown = len(self.frames.times)
        yield lambda: len(self.frames.times) > shown
        self.found["open_ms"] = (self.frames.times[shown] - begun) * 1000
        self.found["messages"] = self.window.chat.model.count
        yield 0.5
        self.found["open"] = self.pulse.stop()
        bar = view.verticalScrollBar()
        self.pulse.start()
        begun = time.monotonic()
        bar.setValue(0)
        for step in range(STEPS + 1):
            bar.setValue(bar.maximum() * step // STEPS)
            yield lambda: True
        yield lambda: not any(c.row.kind == "blank" for c in view.pool.visible() if c.row)
        for step in range(2 * STEPS):
            bar.setValue(bar.value() + (-WHEEL if step < STEPS else WHEEL))
            yield lambda: True
        self.found["scroll"] = {**self.pulse.stop(), **self.frames.since(begun)}
        self.found["pages"] = sum(
            self.window.chat.model.message(i) is not None
            for i in range(self.window.chat.model.count)
        )

    def _stream(self) -> Iterator[Step]:
        yield from self._new_session()
        yield SETTLED
        self.pulse.start()
        self._send()
        model = self.window.chat.model
        yield lambda: model.count >= 2
        begun = time.monotonic()
        before = cpu_seconds(os.getpid()), cpu_seconds(self.host_pid)
        yield self._idle
        took = time.monotonic() - begun
        self.found["stream"] = {**self.pulse.stop(), **self.frames.since(begun)}
        self.found["seconds"] = took
        self.found["gui_cpu"] = (cpu_seconds(os.getpid()) - before[0]) / took
        self.found["host_cpu"] = (cpu_seconds(self.host_pid) - before[1]) / took
        message = model.message(model.count - 1)
        parts = message.parts.values() if message else ()
        texts = [each.part.text for each in parts if isinstance(each.part, TextPart)]
        self.found["characters"] = len("".join(texts))
        self.found["text"] = "".join(texts)


def main(scenario: str, begun: float) -> int:
    """Open the window and measure."""
    probes: list[Probe] = []

    class Watched(desktop.app.Window):
        @override
        def start(self) -> None:
            probes.append(Probe(window=self, scenario=scenario, begun=begun))
            super().start()

    desktop.app.Window = Watched  # type: ignore[misc]
    return desktop.app.main()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2])))
