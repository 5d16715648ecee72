"""An action with progress: Spark reports none through Connect, but files can be counted."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["watched"]

_EVERY_S = 0.5

T = TypeVar("T")


class _Result(Generic[T]):
    def __init__(self, action: Callable[[], T]) -> None:
        self._action = action
        self.value: T | None = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.value = self._action()
        except BaseException as error:
            self.error = error


def watched(action: Callable[[], T], look: Callable[[], None] | None) -> T:
    """Returns or raises what the action does. Meanwhile `look` is called now and then, and once at its end."""
    if look is None:
        return action()
    result = _Result(action)
    # An interrupt does not wait for the job: the session ends it.
    thread = threading.Thread(target=result.run, name="spark action", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_EVERY_S)
        look()
    if result.error is not None:
        raise result.error
    return result.value  # type: ignore[return-value]
