"""Operations of a resilient object: how a class marks them, and how a call travels."""

import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar

import msgspec

from reconvene.errors import InvalidArgument, ReconveneError
from reconvene.world import world

__all__ = ["Ask", "C", "OperationFailed", "P", "R", "Resilient", "Result", "change", "make_ask", "operation"]


class Resilient(Protocol):
    """What your class needs besides its operations."""

    def snapshot(self) -> Any:
        """What its copies have in common: what msgpack can hold."""

    def restore(self, state: Any, /) -> None: ...


C = TypeVar("C", bound=Resilient)
F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")


class OperationFailed(ReconveneError):
    """The operation raised something. It has changed nothing."""


def change(function: F) -> F:
    """Marks a method that alters the state. It is run at every member, so it must do the same at each: it goes by
    the state and its arguments, not by a clock or by chance."""
    function.__reconvene__ = "change"  # type: ignore[attr-defined]
    return function


def operation(*, by: str | None = None) -> Callable[[F], F]:
    """Marks a method that can be called. One member runs it. It reads the state, and alters it by `Work.change`
    only. Another member runs it again if that one fails.

    by: the parameter that says which part of the object it reads and alters: calls with different values may run at
    the same time. Without it, the operation runs alone.
    """

    def mark(function: F) -> F:
        if by is not None and by not in inspect.signature(function).parameters:
            raise InvalidArgument(f"by: a parameter of {function.__name__} expected, not {by!r}")
        function.__reconvene__ = "operation"  # type: ignore[attr-defined]
        function.__by__ = by  # type: ignore[attr-defined]
        return function

    return mark


class Ask(msgspec.Struct, array_like=True, tag="ask", frozen=True):
    """A call."""

    id: bytes
    operation: str
    arguments: list[Any]
    named: dict[str, Any]
    item: Any
    """The value of `by`; None: it runs alone."""


class Result(msgspec.Struct, array_like=True, frozen=True):
    id: bytes
    value: Any
    error: str

    def checked(self, operation: str) -> Any:
        """The value. Raises OperationFailed."""
        if self.error:
            raise OperationFailed(f"{operation}: {self.error}")
        return self.value


def make_ask(of: type, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Ask:
    """A call of an operation of this class. Raises TypeError where it is none."""
    own = getattr(of, getattr(function, "__name__", ""), None)
    if own is None or own != function or getattr(function, "__reconvene__", "") != "operation":
        raise TypeError(f"an operation of {of.__name__} expected, not {function!r}")
    bound = inspect.signature(function).bind(None, None, *args, **kwargs)
    bound.apply_defaults()
    by = function.__by__
    item = None if by is None else bound.arguments[by]
    return Ask(world().random_bytes(16), function.__name__, list(bound.args[2:]), bound.kwargs, item)
