"""The way back to what files were before the session changed them.

``session.file_history`` keeps what the file tools change. ``FileRewind`` takes
changes back, to how the files were when a prompt was sent: ``preview`` says
what would happen and what stands in the way, ``commit`` does it, all of it or
nothing. What somebody else has done to a file is never overwritten. A rewind
is itself a change of files, recorded as such, so it can be taken back with the
same bytes.

While files are being put back, ``rewind.json`` in the checkpoint store says
what is being done. It is there before the first file changes and goes when
the records are stored; the last of these, the mark, decides. A process that
ended in between leaves it for ``recover``, which puts the files back to what
they were before the rewind, or finishes it if the mark was stored.
"""

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from agent_sdk.core.aio import TaskOwner
from agent_sdk.core.errors import (
    FileConflict,
    InvalidInput,
    SessionReadOnly,
    StaleFile,
    StorageError,
    ToolError,
)
from agent_sdk.core.ids import Ids
from agent_sdk.loop.types import Notice
from agent_sdk.session.checkpoint_store import CheckpointStore
from agent_sdk.session.file_log import FileLog, RewindMark, read_file_log
from agent_sdk.session.manager import SessionManager
from agent_sdk.session.rewind_files import GONE, FileLook, disk_state, plain_path, real_path
from agent_sdk.session.rewind_journal import (
    RewindJournal,
    RewindPlan,
    decode_plan,
    put_back,
    rewind_records,
    talk_record,
)
from agent_sdk.session.rewind_plan import (
    Chain,
    RewindPreview,
    What,
    chains_of,
    chains_since,
    hash_of,
    prompt_place,
    rewind_to_undo,
)
from agent_sdk.tools.file_state import FileReadState, Wanted, in_thread
from agent_sdk.tools.path_text import portable

T = TypeVar("T")


class Checkpoint(Struct, frozen=True):
    """A prompt that one can rewind to.

    Attributes:
        uuid: Id of its record.
        text: Beginning of the prompt.
        timestamp: When it was stored, ISO 8601.
        files: How many files were changed between it and the next one.
    """

    uuid: str
    text: str
    timestamp: str
    files: int


class FileRewind:
    """Takes back what a session did to files, its conversation, or both.

    Call ``recover`` once after the session was opened for writing. It belongs
    to the manager's event loop; rewinds are done one after the other, and not
    while a run is going on.

    Args:
        manager: The session.
        store: Where ``SessionFileHistory`` keeps contents.
        state: What the model has seen of files; a file that a rewind changes
            must be read again.
        ids: Source of ids.
        roots: Real paths of folders outside of which no file is changed; empty
            for every file that the session's tools have changed.
    """

    def __init__(
        self,
        *,
        manager: SessionManager,
        store: CheckpointStore,
        state: FileReadState,
        ids: Ids,
        roots: Sequence[str] = (),
    ) -> None:
        self._manager = manager
        self._store = store
        self._state = state
        self._ids = ids
        self._look = FileLook(store=store, cwd=manager.cwd, roots=roots)
        self._lock = asyncio.Lock()
        self._tasks = TaskOwner(name="rewind")

    # ------------------------------------------------------------ looking only

    async def checkpoints(self) -> list[Checkpoint]:
        """Return the prompts that one can rewind to, oldest first."""
        log = await self._log()
        places = list(log.prompts.values())
        ends = [*(place.at for place in places), self._manager.state.count][1:]
        return [
            Checkpoint(
                place.uuid,
                place.text,
                place.timestamp,
                len({c.path for at, c in log.changes if place.at < at < end}),
            )
            for place, end in zip(places, ends, strict=True)
        ]

    async def preview(self, to: str, *, what: What = "files") -> RewindPreview:
        """Return what it would take to go back to a prompt; changes nothing.

        Files go back to what they were when the prompt was sent, the
        conversation to right before it.

        Args:
            to: Id of the record of a prompt, in view or not.
            what: What goes back.

        Raises:
            InvalidInput: If there is no such prompt.
            StorageError: If the session or what it keeps cannot be read.
        """
        log = await self._log()
        place = prompt_place(log, to)
        return await self._preview(
            RewindPreview(what=what, to=to, conversation="" if what == "files" else place.before),
            [] if what == "conversation" else chains_since(log, place.at),
        )

    async def preview_undo(self, rewind_id: str) -> RewindPreview:
        """Return what it would take to take a rewind back; changes nothing.

        Only what that rewind did is taken back. A file that the session has
        changed since is a problem.

        Args:
            rewind_id: As ``commit`` returned it.

        Raises:
            InvalidInput: If there is no such rewind, or it took back a part of
                the conversation, which has gone on since.
            StorageError: If the session or what it keeps cannot be read.
        """
        log = await self._log()
        done = rewind_to_undo(log, rewind_id)
        talk = done.talk
        return await self._preview(
            RewindPreview(
                what="both" if talk else "files",
                undoes=rewind_id,
                conversation=(talk.parent_uuid or "") if talk else "",
                restores=talk.uuid if talk else "",
            ),
            chains_of(log, done),
        )

    async def _preview(self, begun: RewindPreview, chains: Sequence[Chain]) -> RewindPreview:
        files, problems = await in_thread(partial(self._look.at_all, chains))
        return msgspec.structs.replace(begun, files=files, problems=problems)

    async def _log(self) -> FileLog:
        return await read_file_log(self._manager.store)

    # ------------------------------------------------------------------- doing

    async def commit(self, preview: RewindPreview) -> str:
        """Do what a preview says, all of it or nothing.

        It is finished even if the caller is cancelled meanwhile.

        Returns:
            Id of the rewind, by which it can be taken back; empty if there was
            nothing to do.

        Raises:
            InvalidInput: If a run is going on.
            FileConflict: If the preview has problems, or something has changed
                since it was made; nothing was changed.
            SessionReadOnly: If the session cannot be written to.
            StorageError: If it failed. What was done has been taken back;
                where that failed too, the text says so.
        """
        return await self._to_its_end(self._commit(preview), name="commit")

    async def recover(self) -> Notice | None:
        """Settle a rewind in which the process ended; return what a person should know.

        One that cannot be settled now does not keep the session from being
        used: the notice says so, and the next rewind or opening tries again.
        """
        return await self._to_its_end(self._recover(), name="recover")

    async def _to_its_end(self, work: Coroutine[Any, Any, T], *, name: str) -> T:
        task = self._tasks.start(work, name=name)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await self._tasks.drain()
            raise

    async def _commit(self, preview: RewindPreview) -> str:
        async with self._lock:
            self._check_free()
            await self._settle()
            await self._check_current(preview)
            if not preview.files and not preview.conversation:
                return ""
            mark = RewindMark(
                id=self._ids.new(),
                files=len(preview.files),
                to=preview.to,
                undoes=preview.undoes,
                conversation=preview.conversation,
            )
            journal = RewindJournal(store=self._store, mark=mark, restores=preview.restores)
            try:
                if preview.files:
                    await self._put_back(preview, journal)
                await self._manager.append(*rewind_records(mark, journal.files, preview.restores))
            except BaseException as error:
                await self._settle_after(error)
                raise
            await in_thread(partial(self._store.set_plan, None))
            return mark.id

    def _check_free(self) -> None:
        if self._manager.state.open_run:
            raise InvalidInput("The session is busy with a run.", hint="Stop it first.")
        if self._manager.read_only:
            raise SessionReadOnly(
                f"The session {self._manager.session_id!r} cannot be written to, so that nothing"
                " can be rewound in it."
            )

    async def _check_current(self, preview: RewindPreview) -> None:
        if preview.problems:
            raise FileConflict(
                f"The files cannot be rewound: {' '.join(p.text for p in preview.problems[:5])}",
                hint="Nothing was changed.",
            )
        if preview.undoes:
            now = await self.preview_undo(preview.undoes)
        else:
            now = await self.preview(preview.to, what=preview.what)
        if now != preview:
            raise FileConflict(
                "What the rewind would do is not what its preview showed any more.",
                hint="Nothing was changed. Look at it again.",
            )

    async def _settle_after(self, error: BaseException) -> None:
        """Take back what a rewind that failed has done; raise if that is not all of it."""
        if self._manager.read_only:
            # It takes no more records, so nobody can say how this ended: whoever
            # opens the session next reads in its file what is true.
            return
        try:
            notice = await self._settle()
        except StorageError as second:
            raise StorageError(
                f"{error} It could not be taken back now: {second}",
                hint="Open the session again, or rewind again, to try it once more.",
            ) from error
        if notice is not None and notice.code == "rewind_conflict":
            raise StorageError(f"{error} {notice.text}") from error

    async def _put_back(self, preview: RewindPreview, journal: RewindJournal) -> None:
        wanted = [
            Wanted(
                resolved=plain_path(file.path, self._manager.cwd),
                plan=put_back(self._store, {file.now: file.target}, mode=file.mode),
                unseen=True,
            )
            for file in preview.files
        ]
        with_errors = self._state.commit(wanted, call_id="", history=journal)
        await _as_storage_errors(with_errors)

    # --------------------------------------------------------------- recovering

    async def _recover(self) -> Notice | None:
        async with self._lock:
            if self._manager.read_only:
                return None
            try:
                return await self._settle()
            except StorageError as error:
                text = f"A rewind of files that was interrupted cannot be settled now: {error}"
                return Notice("error", "rewind_unsettled", text)

    async def _settle(self) -> Notice | None:
        """Finish or take back the rewind of which there is a plan, if there is one."""
        data = await in_thread(self._store.plan)
        if data is None:
            return None
        plan = decode_plan(data)
        log = await self._log()
        done = log.rewinds.get(plan.mark.id)
        if done is not None:
            if plan.mark.conversation and done.talk is None:
                await self._manager.append(talk_record(plan.mark, plan.restores))
            text = "A rewind of files that was interrupted has been finished."
            notice = Notice("info", "rewind_finished", text)
        else:
            notice = await self._take_back(plan)
        await in_thread(partial(self._store.set_plan, None))
        return notice

    async def _take_back(self, plan: RewindPlan) -> Notice:
        left = []
        for change in plan.files:
            before, after = hash_of(change.before), hash_of(change.after)
            path = real_path(change.path)
            now = await in_thread(partial(disk_state, path))
            if now.problem in GONE or (now.problem is None and now.hash not in (before, after)):
                left.append(path)
                continue
            mode = change.before.mode if change.before else 0
            wanted = Wanted(
                resolved=plain_path(path, self._manager.cwd),
                plan=put_back(self._store, {after: before, before: before}, mode=mode),
                unseen=True,
            )
            try:
                await _as_storage_errors(self._state.commit((wanted,), call_id="", history=None))
            except FileConflict:
                left.append(path)
        text = "A rewind of files that was interrupted has been taken back."
        if not left:
            return Notice("warning", "rewind_taken_back", text)
        names = ", ".join(repr(portable(path)) for path in left)
        text += f" These files were changed by somebody else meanwhile and stay so: {names}."
        return Notice("warning", "rewind_conflict", text)


async def _as_storage_errors(work: Awaitable[Any]) -> None:
    """Await a change of files whose errors are for a person, not for a model."""
    try:
        await work
    except StaleFile as error:
        raise FileConflict(error.message, hint="Nothing was changed.") from error
    except ToolError as error:
        raise StorageError(error.message, hint=error.hint) from error
