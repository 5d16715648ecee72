"""From appends to batches: which of them count as durable, and when."""

from reconvene.corel.clients.accepting import Accepting
from reconvene.corel.clients.sessions import Sessions
from reconvene.corel.keeping.bodies import Bodies
from reconvene.corel.keeping.green_batches import GreenBatches
from reconvene.corel.keeping.layout import Base, Record
from reconvene.corel.keeping.writes import Writes
from reconvene.corel.limits import LogLimits
from reconvene.corel.paper.queue import Queue
from reconvene.corel.replicas.sets import ReplicaSet
from reconvene.storage.memory import MemoryTables


def accepting() -> tuple[Accepting, Queue]:
    limits = LogLimits()
    tables, replicas = MemoryTables(), ReplicaSet.first(["a"])
    bodies = Bodies(tables, limits.cache_bytes)
    greens, sessions = GreenBatches(tables, bodies, 0), Sessions(tables, bodies, limits.sessions)
    writes = Writes(Record(identity=b"", replicas=replicas))
    queue = Queue(Base(replicas=replicas), 0, bodies, greens, sessions, writes)
    return Accepting(queue, 1, limits), queue


def test_what_is_appended_during_a_sync_goes_into_the_next_batch() -> None:
    taking, queue = accepting()
    assert [taking.append([b"x"]), taking.append([b"y"])] == [1, 2]
    assert [heading.count for heading in taking.close(7)] == [2]
    assert taking.append([b"z"]) == 3
    assert taking.close(8) == []
    assert [waiting.durable for waiting in queue.accepted] == [False]
    taking.synced()
    assert [waiting.durable for waiting in queue.accepted] == [True]
    assert [heading.first for heading in taking.close(9)] == [3]


def test_what_gets_another_number_during_a_sync_is_not_durable_with_it() -> None:
    taking, queue = accepting()
    taking.append([b"x"])
    taking.close(7)
    queue.renumber(5)
    taking.synced()
    assert [(waiting.heading.author, waiting.durable) for waiting in queue.accepted] == [(5, False)]
