"""The process of one remote object of the local engine. Started as `python -m agentfw.engine.worker NAME`.

It reads calls from stdin and writes answers to stdout, as frames. When stdin closes, whatever happened to the parent,
it closes the object and exits, so it never outlives the parent.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from contextlib import suppress
from typing import IO

from ..boundary.output import struck_logs, struck_streams
from .interface import Plain
from .wire import Served, encode, read_frame

_CLOSING = 10.0  # seconds that an object may take to close


class _Worker:
    def __init__(self, name: str, calls: IO[bytes], answers: IO[bytes]) -> None:
        self.served = Served(name)
        self.calls, self.answers = calls, answers
        self.running: dict[int, asyncio.Task[None]] = {}
        self.ended = asyncio.Event()

    async def run(self) -> None:
        hello = await asyncio.to_thread(read_frame, self.calls)
        if hello is None:
            return
        # Before the object is made, which may take minutes: the parent can end meanwhile.
        threading.Thread(target=self._listen, args=(asyncio.get_running_loop(),), daemon=True).start()
        made = await self.served.make(hello["factory"], hello["arguments"])
        self.write({"id": hello["id"], **made})
        if "error" in made:
            return
        await self.ended.wait()
        for task in self.running.values():
            task.cancel()
        await self.served.close()

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        while (call := read_frame(self.calls)) is not None:
            loop.call_soon_threadsafe(self._begin, call)
        loop.call_soon_threadsafe(self.ended.set)
        # The object may be computing, and then doesn't learn that it should end.
        threading.Event().wait(_CLOSING)
        os._exit(1)

    def _begin(self, call: Plain) -> None:
        number = call["id"]

        async def answered() -> None:
            try:
                self.write({"id": number, **await self.served.call(call["method"], call["arguments"])})
            finally:
                del self.running[number]

        if "cancel" not in call:
            self.running[number] = asyncio.create_task(answered())
        elif number in self.running:
            self.running[number].cancel()

    def write(self, answer: Plain) -> None:
        try:
            frame = encode(answer)
        except (TypeError, ValueError) as error:
            text = f"{self.served.name} gave an answer that can't be sent: {error}"
            fix = "return numbers, text, bytes, lists and dicts"
            frame = encode({"id": answer["id"], "error": "PluginError", "message": text, "fix": fix})
        with suppress(OSError):  # the parent is gone, which the listener notices too
            self.answers.write(frame)
            self.answers.flush()


def main() -> None:
    # Ctrl-C is handled by the parent.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The pipes get numbers of their own: what the object prints goes to stderr, and it reads nothing.
    calls, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)

    async def run() -> None:
        await _Worker(sys.argv[1], calls, answers).run()

    with struck_streams(), struck_logs():
        asyncio.run(run())
    # Threads of the object's libraries must not keep the process.
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
