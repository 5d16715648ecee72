"""The driver's part of a write: one commit that makes all rows visible."""

import logging
from collections.abc import Sequence
from time import monotonic

from pyspark.sql.datasource import WriterCommitMessage

from reconvene.client.staging import Committed
from reconvene.errors import OutcomeUnknown, Unavailable
from reconvene.pipeline.sink.identities import commit_new
from reconvene.pipeline.sink.options import SinkOptions
from reconvene.pipeline.sink.staged import Staged
from reconvene.pipeline.sink.target import Target

__all__ = ["commit", "commit_rows", "staged_of"]

_log = logging.getLogger("reconvene.pipeline")

_ATTEMPTS = 3
"""Of a commit that may be repeated, each at another replica, within the time that is given."""


def staged_of(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    """By partition: the order of the rows in the log."""
    found = [message for message in messages if isinstance(message, Staged)]
    return sorted(found, key=lambda message: message.partition)


def commit(options: SinkOptions, staged: Sequence[Staged], name: str | None, version: int) -> None:
    """Returns when the rows are visible to every reader, by this commit or by an earlier one of the same version.

    Raises OutcomeUnknown where that is not known in time: with a name, writing it again writes it once.
    """
    if any(message.done for message in staged):
        _log.info("%s %d: the log has it; nothing was written", name, version)
        return
    places = [place for message in staged for place in message.places]
    if not places and name is None:
        return
    rows = sum(message.rows for message in staged)
    committed = _commit(options, places, name, version)
    if committed.duplicate:
        _log.info("%s %d: the log has it; none of the %d rows is visible twice", name, version, rows)
    else:
        _log.info("%s %d: %d rows are committed at %d", name, version, rows, committed.position)


def commit_rows(options: SinkOptions, staged: Sequence[Staged], name: str) -> None:
    """The same of those rows whose ids are not in the log under this name."""
    written = [message for message in staged if message.rows]
    if not written:
        return
    for attempt in range(_ATTEMPTS):
        try:
            with Target(options.access, attempt) as target:
                new, rows = commit_new(target.log, written, name, options.access.timeout_s / _ATTEMPTS)
            _log.info("%s: %d of %d rows are new", name, new, rows)
            return
        except (OutcomeUnknown, Unavailable) as error:
            if attempt + 1 == _ATTEMPTS:
                raise
            _log.warning("commit of %s is tried again: %s", name, error)


def _commit(options: SinkOptions, places: list[tuple[int, int]], name: str | None, version: int) -> Committed:
    timeout_s = options.access.timeout_s
    end = monotonic() + timeout_s
    attempts = _ATTEMPTS if name is not None else 1
    for attempt in range(attempts):
        try:
            with Target(options.access, attempt) as target:
                return target.log.commit(places, name=name, version=version, timeout=timeout_s / attempts)
        except (OutcomeUnknown, Unavailable) as error:
            if attempt + 1 == attempts or monotonic() > end:
                raise
            _log.warning("commit of %s %d is tried again: %s", name, version, error)
    raise AssertionError("the last attempt returns or raises")
