"""What calls a resilient object from outside of its group: any process can (Birman and Joseph, 5)."""

from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, Generic

import msgspec

from reconvene.client.arguments import check_text, check_timeout, encoded
from reconvene.client.isis import Isis
from reconvene.client.isis_events import ALL, Reply
from reconvene.client.time_limits import within
from reconvene.errors import OutcomeUnknown
from reconvene.objects.operations import C, P, R, Result, make_ask
from reconvene.objects.resilient import Work

__all__ = ["ResilientCaller"]

_NAME_LETTERS = 255
_result = msgspec.msgpack.Decoder(Result)


class ResilientCaller(Generic[C]):
    """For processes that have no copy. It needs no block, and reads no events."""

    def __init__(self, isis: Isis, name: str, of: type[C], *, timeout: float | None = None) -> None:
        """`of`: the object's class. `timeout`: s, of each call."""
        if not isinstance(isis, Isis):
            raise TypeError(f"isis: a site's process expected, as in site.isis, not {type(isis).__name__}")
        if not isinstance(of, type):
            raise TypeError(f"of: the object's class expected, not {of!r}")
        self.name = check_text(name, "name", _NAME_LETTERS)
        self._isis = isis
        self._of = of
        self._timeout = timeout if timeout is None else check_timeout(timeout)

    async def run(
        self, operation: Callable[Concatenate[C, Work, P], Awaitable[R]], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """As `ResilientObject.run`. Its effect is there once, also where members fail meanwhile.

        Raises OperationFailed where the operation raises; Rejected where the object has no members; Unavailable where
        nothing was sent; OutcomeUnknown where all members that received the call have failed or left, where this
        process was killed meanwhile, or after the time: then the operation was run once, or will be, or was not."""
        ask = make_ask(self._of, operation, args, kwargs)
        data = encoded(ask, "arguments")
        result = await within(self._timeout, self._call(data), "answered")
        return result.checked(ask.operation)  # type: ignore[no-any-return]

    async def _call(self, data: bytes) -> Result:
        call = await self._isis.abcast(data, self.name, label=self.name, causal=True, replies=ALL)
        async for reply in call:
            if isinstance(reply, Reply) and reply.data:
                return _decoded(reply.data)
        raise OutcomeUnknown(
            f"{self.name!r}: all members failed or left before they had answered; it may have been run"
        )


def _decoded(data: bytes) -> Result:
    try:
        found: Any = _result.decode(data)
    except (msgspec.DecodeError, ValueError) as error:
        raise OutcomeUnknown(f"a reply that no resilient object sends: {error}") from None
    return found  # type: ignore[no-any-return]
