"""Errors of ours that Spark shows with the line that matters at the top.

Spark passes on an error of a Python process as the text of its traceback, in which the error itself comes last, after
all frames. By default it leaves out frames of its own, and causes. So an error leaves our code with a single frame,
and the others follow as a note. Where Spark shows causes too, Python prints them first: there the cause is the class
and the sentence alone.
"""

import traceback
from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

from reconvene.errors import ReconveneError

__all__ = ["first_line", "first_line_of_each"]

P = ParamSpec("P")
T = TypeVar("T")


def first_line(method: Callable[P, T]) -> Callable[P, T]:
    """For methods that Spark calls."""

    @wraps(method)
    def called(*given: P.args, **named: P.kwargs) -> T:
        try:
            return method(*given, **named)
        except ReconveneError as error:
            raise _at_the_top(error) from _bare(error)

    return called


def first_line_of_each(method: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """The same for those that return an iterator."""

    @wraps(method)
    def called(*given: P.args, **named: P.kwargs) -> Iterator[T]:
        try:
            yield from method(*given, **named)
        except ReconveneError as error:
            raise _at_the_top(error) from _bare(error)

    return called


def _at_the_top(error: ReconveneError) -> ReconveneError:
    frames = "".join(traceback.format_tb(error.__traceback__))
    error.add_note(f"It was raised here (most recent call last):\n{frames.rstrip()}")
    return error.with_traceback(None)


def _bare(error: ReconveneError) -> ReconveneError:
    """The class that users know, and the sentence."""
    kinds = (one for one in type(error).__mro__ if issubclass(one, ReconveneError))
    kind = next(one for one in kinds if one.__module__ == ReconveneError.__module__)
    bare = kind.__new__(kind)
    bare.args = (" ".join(str(error).split()),)
    return bare
