"""Makes or loads a site's replica of the log, from the site's configuration and storage."""

from reconvene.corel.following.follower import Follower, first_follower_ops, is_followers
from reconvene.corel.keeping.check import check
from reconvene.corel.keeping.load import create, exists, start
from reconvene.corel.keeping.migrate import migrations
from reconvene.corel.limits import LogLimits
from reconvene.corel.replica import Replica
from reconvene.corel.replicas.sets import ReplicaSet
from reconvene.errors import Malformed, Unavailable
from reconvene.runtime.config.settings import Config
from reconvene.storage.tables import Op, Reader, Tables
from reconvene.wire.client_log import log_message_bytes
from reconvene.world import world

__all__ = ["IDENTITY_BYTES", "first_ops", "limits_of", "load_follower", "load_replica"]

IDENTITY_BYTES = 8
_FRAME_SPARE = 512
"""Bytes of a frame that are reserved for the headers around a batch's messages."""
_LEAST_BATCH = 256


def limits_of(config: Config, frame_bytes: int) -> LogLimits:
    log = config.log
    return LogLimits(
        batch_bytes=log.batch_bytes or max(frame_bytes - _FRAME_SPARE, _LEAST_BATCH),
        message_bytes=log_message_bytes(config.limits.message_bytes),
        red_messages=log.red_messages,
        red_bytes=log.red_bytes,
        sessions=log.sessions,
        snapshot_bytes=log.snapshot_bytes,
        retain_bytes=log.retain_bytes or None,
        retain_age_ns=log.retain_age_ns or None,
        staged_age_ns=log.staged_age_ns,
    )


def first_ops(config: Config, tables: Reader, incarnation: int, token: int) -> list[Op]:
    """What must be written and synced before the log starts here: the site's incarnation and this start's token."""
    try:
        if config.log.follow:
            return first_follower_ops(tables, world().random_bytes(IDENTITY_BYTES), incarnation, token)
        if exists(tables):
            return start(tables, incarnation, token)
    except (Malformed, Unavailable):
        return []  # `load_replica` and `load_follower` report the error
    replicas = ReplicaSet.first(config.replicas, config.log.quorum)
    return create(world().random_bytes(IDENTITY_BYTES), replicas, admitted=False, boots={incarnation: token})


def load_replica(
    config: Config, names: tuple[str, ...], tables: Tables, incarnation: int, frame_bytes: int
) -> Replica:
    """Loads the replica, after migrating storage of an older version.

    Raises Malformed, with what is wrong, if storage is damaged; Unavailable if it is of a newer version or can't be
    written.
    """
    _prepare(config, tables)
    if is_followers(tables):
        raise Unavailable(
            f"{config.dir}: a follower kept its log there: expected [log] follow in the site's file, or another"
            " directory for a replica"
        )
    limits = limits_of(config, frame_bytes)
    log = config.log
    return Replica(config.name, names, incarnation, tables, limits, begin=log.begin)


def load_follower(config: Config, tables: Tables, incarnation: int, frame_bytes: int) -> Follower:
    """The same of a site that follows a log."""
    _prepare(config, tables)
    if not is_followers(tables):
        raise Unavailable(
            f"{config.dir}: a replica kept its log there: expected another directory, or no [log] follow"
        )
    return Follower(config.name, incarnation, tables, limits_of(config, frame_bytes))


def _prepare(config: Config, tables: Tables) -> None:
    try:
        for ops in migrations(tables):
            tables.write(ops)
    except OSError as error:
        raise Unavailable(f"{config.dir}: the log can't be migrated to this version: {error}") from None
    problems = check(tables, full=False)
    if problems:
        more = f", and {len(problems) - 1} more: see `reconvene log check`" if len(problems) > 1 else ""
        raise Malformed(f"{problems[0]}{more}")
