"""A replica's way from and to stable storage at its start."""

from msgspec import msgpack

from reconvene.corel.events import Color
from reconvene.corel.keeping.bodies import Bodies
from reconvene.corel.keeping.layout import (
    ACCEPTED,
    BASE,
    LINE,
    RECORD,
    RED,
    YELLOW,
    Base,
    Record,
    batch_of,
    decode_base,
    decode_line,
    decode_place,
    decode_record,
    position_of,
    table_end,
)
from reconvene.corel.paper.queue import Queue
from reconvene.corel.replicas.lineage import add_boot
from reconvene.corel.replicas.sets import ReplicaSet
from reconvene.errors import Malformed
from reconvene.storage.tables import Op, Put, Reader
from reconvene.voting import first_kept

__all__ = ["create", "exists", "fill", "load_base", "load_record", "start"]


def exists(tables: Reader) -> bool:
    return tables.get(RECORD) is not None


def create(
    identity: bytes,
    replicas: ReplicaSet,
    *,
    admitted: bool,
    boots: dict[int, int] | None = None,
    replaces: bool = False,
) -> list[Op]:
    """What is to be synced before a replica starts for the first time.

    `admitted`: it belongs to a log that is begun with all of these replicas. Else it waits. `boots`: the token of
    this start, by incarnation. `replaces`: an operator has said that it takes the place of a lost one.
    See `layout.Record`.
    """
    names = replicas.by_number()
    record = Record(
        identity=identity,
        replicas=replicas,
        names=names,
        admitted=admitted,
        boots=boots or {},
        replaces=replaces,
        kept=first_kept(replicas.weights(), replicas.epoch),
    )
    return [Put(RECORD, msgpack.encode(record)), Put(BASE, msgpack.encode(Base(replicas=replicas, names=names)))]


def start(tables: Reader, incarnation: int, token: int) -> list[Op]:
    """What is to be synced before a replica starts again, with its site's incarnation."""
    record = load_record(tables)
    add_boot(record, incarnation, token)
    return [Put(RECORD, msgpack.encode(record))]


def load_record(tables: Reader) -> Record:
    stored = tables.get(RECORD)
    if stored is None:
        raise Malformed("the log's record is missing")
    return decode_record(stored)


def load_base(tables: Reader) -> Base:
    stored = tables.get(BASE)
    if stored is None:
        raise Malformed("the log's base is missing")
    return decode_base(stored)


def fill(queue: Queue, bodies: Bodies, tables: Reader) -> None:
    """The queue as it was last synced."""
    line = tables.get(LINE)
    if line is not None:
        found = decode_line(line)
        queue.load_green(found.green, found.last_green, found.size)
    for key, value in tables.scan(YELLOW, table_end(YELLOW)):
        place = decode_place(value)
        queue.load(bodies.heading(place.id), place, Color.YELLOW, position_of(key))
    for _, value in tables.scan(RED, table_end(RED)):
        place = decode_place(value)
        queue.load(bodies.heading(place.id), place, Color.RED)
    for key, _ in tables.scan(ACCEPTED, table_end(ACCEPTED)):
        queue.load_accepted(bodies.heading(batch_of(key)))
