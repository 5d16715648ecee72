"""One event of each kind that the ISIS layer reports, and the rows that they become at node b."""

from reconvene.core.groups.events import Process
from reconvene.isis.events import (
    ALL,
    Answered,
    Begun,
    Blocked,
    Cast,
    CastId,
    Ended,
    Failed,
    Flushed,
    IsisEvent,
    JoinAsked,
    Killed,
    LeftGroup,
    Received,
    Rejection,
    SiteAdopted,
    StateChunk,
    StateDone,
    StateWanted,
    ViewShown,
)  # fmt: skip
from reconvene.trace.events import Row
from reconvene.trace.isis_recorder import IsisRecorder
from reconvene.trace.recorder import Recorder

ME, YOU = Process(1, 2, 1), Process(0, 1, 3)
ID = CastId(1, 2, 7)
THEIRS = CastId(0, 1, 9)

LIFE: list[IsisEvent] = [
    SiteAdopted("131073", 131073, ((0, 65536), (1, 131073), (2, 65536))),
    Begun(ME, "x"),
    Begun(Process(1, 2, 2), ""),
    JoinAsked(ME, "bank"),
    ViewShown(ME, "bank", 4, (ME, YOU), 131073, "131073", {"mode": b"ro"}, (Process(2, 1, 1),)),
    StateWanted(ME, "bank", 4, YOU, 0),
    StateChunk(ME, "bank", 0, b"..."),
    StateDone(ME, "bank", 4),
    Cast("cbcast", ME, ID, 0, (ME, YOU), '{"x":7}', False, 0),
    Cast("abcast", ME, ID, 1, (YOU,), "queue", False, 2, "bank", 4),
    Cast("abcast", ME, ID, 0, (YOU,), "", True, ALL, "bank", 4),
    Cast("gbcast", ME, ID, 0, (ME, YOU), "", False, 0, "bank", 4),
    Received(ME, "cbcast", YOU, THEIRS, 0, b"", replies=1),
    Received(ME, "abcast", YOU, THEIRS, 2, b"", "bank", 4, (17, 2)),
    Rejection(ME, YOU, THEIRS, 0, "bank", 5),
    Answered(ME, YOU, ID, b"yes"),
    Failed(ME, YOU, ID),
    Failed(ME, YOU, None),
    Flushed(ME, ID),
    Flushed(ME, None),
    LeftGroup(ME, "bank"),
    Blocked(ME),
    Ended(ME),
    Killed(Process(1, 2, 3), ME),
]


def record(events: list[IsisEvent]) -> list[Row]:
    rows: list[Row] = []
    recorder = Recorder("b", ["a", "b", "b-c"], rows, next_n=5)
    recorder.begin(2)
    IsisRecorder(recorder).events(99, events)
    return rows


LABELS = ["{}", '{"x":7}', '{"":0}', '{"a":-3,"b":9223372036854775807}', '{"\\u00e9\\n\\"":1}', '{"é":1}',
          '{"a": 1, "b": 2}']  # fmt: skip
NO_LABELS = ["", "x", "7", "[]", "{x:7}", '{"x":  7}', '{ "x":7}', '{"x":07}', '{"x":1.5}', '{"x":"7"}', '{"x":7}\n',
             '{"x":7,}', '{"x\\":7}', '{"\\u12":7}', '{"\n":7}',
             "{" + ",".join(f'"{i}":1' for i in range(17)) + "}"]  # fmt: skip
