"""What lives and dies together inside a simulated event loop.

A real process has an event loop of its own, which stops when the process is stopped and is gone when it is killed.
Here all processes share one loop. Every callback carries a context, and the context says which process it belongs
to: so the loop can hold back the callbacks of a process that is paused, and drop those of one that is dead, as
`kill -9` does. No `finally` block of it runs.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any

__all__ = ["Process", "current_process", "owner_of", "process_of"]

_CURRENT: ContextVar["Process | None"] = ContextVar("reconvene.testing.process", default=None)


def current_process() -> "Process | None":
    """None: the test itself, which is on no machine and never stops."""
    return _CURRENT.get()


class Process:
    """At a machine (its ordinal), named for messages to people."""

    def __init__(self, name: str, machine: int, is_site: bool = False) -> None:
        self.name = name
        self.machine = machine
        self.is_site = is_site
        self.paused = False
        self.dead = False
        self.held: list[asyncio.Handle] = []
        """Callbacks that were due while it was paused, in their order."""
        self.on_death: dict[Callable[[], None], None] = {}
        """What the operating system does when it is dead: its connections are reset."""
        self.context: Context = copy_context()
        self.context.run(_CURRENT.set, self)

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def die(self) -> None:
        if not self.dead:
            self.dead = True
            self.held.clear()
            effects, self.on_death = self.on_death, {}
            for effect in effects:
                effect()


def process_of(context: Context) -> Process | None:
    return context.get(_CURRENT)


def owner_of(handle: asyncio.Handle) -> Process | None:
    context: Any = handle._context  # type: ignore[attr-defined]
    return process_of(context)
