"""Child processes: the only way in which ZPI starts any.

A ``ProcessOwner`` belongs to one session or program. It answers for every
process that its children start, however they hide: none of them outlives
``Child.kill_tree``, ``ProcessOwner.aclose`` or the owner's own death.

    owner = ProcessOwner()
    child = await owner.spawn(
        SpawnSpec(argv=("/bin/bash", "-c", "make"), cwd=folder, env=environment),
        on_output=collector.feed,
    )
    status = await child.wait()      # has exited, and its output is complete
    await owner.aclose()

A server is spoken to line by line: leave out ``on_output``, spawn it with
``stdin="pipe"``, and use ``child.lines()`` and ``child.write()``.
"""

import sys

from agent_sdk.core.process_types import (
    ExitStatus,
    OutputSink,
    SpawnSpec,
    WorkingFolderError,
)

if sys.platform == "win32":
    from agent_sdk.core.process_windows import WindowsChild as Child
    from agent_sdk.core.process_windows import WindowsProcessOwner as ProcessOwner
else:
    from agent_sdk.core.process_posix import PosixChild as Child
    from agent_sdk.core.process_posix import PosixProcessOwner as ProcessOwner

__all__ = [
    "Child",
    "ExitStatus",
    "OutputSink",
    "ProcessOwner",
    "SpawnSpec",
    "WorkingFolderError",
]
