"""Errors of ours that Spark shows with the line that matters first.

Spark passes on an error of a Python process as the text of its traceback, in which the error itself comes last, after
the frames of Spark's workers. Python prints the cause of an error before the error: so a cause that has no traceback,
only the class and the sentence, makes that the first line.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from reconvene.errors import ReconveneError

__all__ = ["first_line", "first_line_of_each", "useful_first"]

P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def useful_first() -> Iterator[None]:
    try:
        yield
    except ReconveneError as error:
        raise error from _bare(error)


def first_line(method: Callable[P, T]) -> Callable[P, T]:
    """For methods that Spark calls."""

    @wraps(method)
    def called(*given: P.args, **named: P.kwargs) -> T:
        with useful_first():
            return method(*given, **named)

    return called


def first_line_of_each(method: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """The same for those that return an iterator."""

    @wraps(method)
    def called(*given: P.args, **named: P.kwargs) -> Iterator[T]:
        with useful_first():
            yield from method(*given, **named)

    return called


def _bare(error: ReconveneError) -> ReconveneError:
    """The class that users know, and the sentence."""
    kind = next(one for one in type(error).__mro__ if one.__module__ == ReconveneError.__module__)
    bare: ReconveneError = kind.__new__(kind)
    bare.args = (" ".join(str(error).split()),)
    return bare
