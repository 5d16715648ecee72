"""Plans against the log itself: every row once, with the log's time, in pieces of the size that was asked for."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconvene.corel.batch import Kind
from reconvene.corel.clients.commits import Commit, encode_commit
from reconvene.entries import EntryBatch
from reconvene.pipeline.source import plan as planning
from reconvene.pipeline.source import ranges as ranging
from reconvene.pipeline.source.clock import BOUND_NS, Clock
from reconvene.pipeline.source.options import parse_options
from reconvene.pipeline.source.plan import Piece, Plan, Planner, Shown, share
from reconvene.pipeline.source.pushdown import EVERY, Wanted
from reconvene.pipeline.source.ranges import make_plan, partitions_of, rows_per_partition
from reconvene.pipeline.source.replicas import Replicas
from reconvene.pipeline.source.staged import rest_of

drawn = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.integers(1, 9),
        st.sampled_from(["data", "data", "staged", "commit", "change"]),
        st.integers(0, 5 * BOUND_NS),
    ),
    min_size=1,
    max_size=25,
)
Rows = list[tuple[int, int]]
"""(position, log's time) …"""


def headings(batches: list[tuple[str, int, str, int]]) -> list[EntryBatch]:
    """A log: each commit makes visible what was staged since the last one."""
    found: list[EntryBatch] = []
    position = 0
    staged: list[tuple[int, int]] = []
    for author, count, kind, time in batches:
        messages: list[bytes] = []
        if kind != "data" and kind != "staged":
            count = 1
        if kind == "staged":
            staged.append((position, count))
        elif kind == "commit":
            messages = [encode_commit(Commit("", 1, staged))]
            staged = []
        found.append(EntryBatch(position, author, 1, position + 1, time, Kind[kind.upper()], messages, (), count))
        position += count
    return found


def visible(log: list[EntryBatch], start: int, stop: int) -> Rows:
    """By the definition: one batch after the other."""
    clock = Clock()
    rows: Rows = []
    staged: list[int] = []
    for heading in log:
        now = clock.see(heading.author, heading.time)
        positions = range(heading.position, heading.end)
        if heading.kind == "data":
            rows += [(at, now) for at in positions if start <= at < stop]
        elif heading.kind == "staged":
            staged += positions
        elif heading.kind == "commit":
            rows += [(at, now) for at in staged if start <= heading.position < stop]
            staged = []
    return rows


def planned(log: list[EntryBatch], plan: Plan) -> Rows:
    """As tasks read it."""
    rows: Rows = []
    for piece in plan.pieces:
        if isinstance(piece, Shown):
            rows += [(at, piece.log_time) for first, count in piece.ranges for at in range(first, first + count)]
            continue
        clock = Clock(*piece.clock)
        for heading in log:
            inside = range(max(heading.position, piece.start), min(heading.end, piece.stop))
            if inside:
                now = clock.see(heading.author, heading.time)
                rows += [(at, now) for at in inside if heading.kind == "data"]
    return rows


def make(log: list[EntryBatch], start: int, stop: int, rows: int, most: int | None, wanted: Wanted = EVERY) -> Plan:
    clock = Clock()
    for heading in log:
        if heading.position < start:
            clock.see(heading.author, heading.time)
    planner = Planner(start, stop, clock, rows, most, wanted)
    for heading in log:
        if heading.end > start and heading.position < stop and not planner.full:
            planner.see(cut(heading, start))
    return planner.plan()


def cut(heading: EntryBatch, start: int) -> EntryBatch:
    """As a site answers who asks from within a batch."""
    return heading.cut(start)


@settings(deadline=None)
@given(drawn, st.data(), st.integers(1, 20))
def test_a_plan_has_every_row_once(batches: list[tuple[str, int, str, int]], data: st.DataObject, rows: int) -> None:
    log = headings(batches)
    start = data.draw(st.integers(0, log[-1].end))
    stop = data.draw(st.integers(start, log[-1].end))
    plan = make(log, start, stop, rows, None)
    assert plan.end == stop
    assert sorted(planned(log, plan)) == sorted(visible(log, start, stop))
    assert all(piece.rows <= rows for piece in plan.pieces)
    shares = list(share(plan.pieces, rows))
    assert tuple(piece for some in shares for piece in some) == plan.pieces


@settings(deadline=None)
@given(drawn, st.data(), st.integers(1, 20))
def test_a_plan_has_the_wanted_positions_and_no_others(
    batches: list[tuple[str, int, str, int]], data: st.DataObject, rows: int
) -> None:
    log = headings(batches)
    start = data.draw(st.integers(0, log[-1].end))
    stop = data.draw(st.integers(start, log[-1].end))
    low = data.draw(st.integers(0, log[-1].end))
    wanted = Wanted(low, data.draw(st.integers(low, log[-1].end + 5)))
    plan = make(log, wanted.start(start, stop), stop, rows, None, wanted)
    expected = [row for row in visible(log, start, stop) if wanted.low <= row[0] < wanted.high]
    assert sorted(planned(log, plan)) == sorted(expected)


@settings(deadline=None)
@given(drawn, st.integers(1, 8), st.integers(1, 12))
def test_a_stream_of_limited_plans_is_the_whole(
    batches: list[tuple[str, int, str, int]], rows: int, most: int
) -> None:
    log = headings(batches)
    stop = log[-1].end
    at, clock, found = 0, Clock(), Rows()
    while at < stop:
        planner = Planner(at, stop, clock, rows, most)
        for heading in log:
            if heading.end > at and not planner.full:
                planner.see(cut(heading, at))
        plan = planner.plan()
        assert plan.end > at, "a stream goes on"
        here = planned(log, plan)
        alone = len({piece.commit for piece in plan.pieces if isinstance(piece, Shown)}) == 1
        assert len(here) <= most or (alone and all(isinstance(piece, Shown) for piece in plan.pieces))
        found += here
        at, clock = plan.end, Clock(*plan.clock)
    assert sorted(found) == sorted(visible(log, 0, stop))


def test_what_is_truncated_meanwhile_is_left_out_and_no_piece_spans_it() -> None:
    planner = Planner(0, 30, Clock(), 100)
    planner.see(EntryBatch(0, "a", 1, 1, 5, Kind.DATA, [], (), 10))
    planner.see(EntryBatch(20, "a", 1, 21, 5, Kind.DATA, [], (), 10))
    assert [(piece.start, piece.stop) for piece in planner.plan().pieces if isinstance(piece, Piece)] == [
        (0, 10),
        (20, 30),
    ]


def test_a_long_stretch_without_rows_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def stretches(gap: int) -> Iterator[tuple[int, int]]:
        monkeypatch.setattr(planning, "_GAP", gap)
        planner = Planner(0, 40, Clock(), 100)
        for at, kind in enumerate(("data", "staged", "staged", "data")):
            planner.see(EntryBatch(10 * at, "a", 1, 1, 5, Kind[kind.upper()], [], (), 10))
        for piece in planner.plan().pieces:
            assert isinstance(piece, Piece)
            yield piece.start, piece.stop

    assert list(stretches(20)) == [(0, 10), (30, 40)]
    assert list(stretches(21)) == [(0, 40)]


def test_there_are_never_too_many_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "MOST_PARTITIONS", 4)
    plan = make(headings([("a", 9, "data", 0)] * 4), 0, 36, 1, None)
    assert [piece.rows for piece in plan.pieces] == [9] * 4


@pytest.mark.parametrize(
    ("kinds", "most", "sizes"),
    [
        # A batch of 400 rows before a backlog of 10,000, in four tasks, not in one.
        (["data"] * 10, 400, [100, 100, 100, 100]),
        (["data"] * 10, None, [2_500, 2_500, 2_500, 2_500]),
        # Positions of what is staged, and of commits, are no rows.
        (["staged", "commit", "staged", "commit"], None, [500, 500, 500, 500]),
        (["staged", "staged", "commit"], 400, [500, 500, 500, 500]),
    ],
)
def test_partitions_are_of_the_batch_and_not_of_the_backlog(
    monkeypatch: pytest.MonkeyPatch, kinds: list[str], most: int | None, sizes: list[int]
) -> None:
    log = headings([("a", 1_000, kind, 0) for kind in kinds])
    monkeypatch.setattr(ranging, "_headings", lambda *_: iter(log))
    options = parse_options({"addresses": "a:1", "partitions": "4"}, stream=True)
    with Replicas(options.access) as replicas:
        plan = make_plan(replicas, options, 0, log[-1].end, Clock(), most_rows=most)
    found = partitions_of(options, plan)
    assert [sum(piece.rows for piece in part.pieces) for part in found] == sizes


@pytest.mark.parametrize(
    ("given", "rows", "each"),
    [
        # A task costs Spark as much as many rows do: few of them where nothing is told.
        ({}, 0, 100_000),
        ({}, 150_000, 100_000),
        ({}, 1_000_001, 250_001),
        ({}, 50_000_000, 1_000_000),
        ({"rowsPerPartition": "7"}, 50_000_000, 7),
        ({"partitions": "3"}, 10, 4),
        ({"partitions": "3"}, 0, 1),
    ],
)
def test_how_many_rows_a_task_reads(given: dict[str, str], rows: int, each: int) -> None:
    assert rows_per_partition(parse_options({"addresses": "a:1", **given}), rows) == each


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 99), st.integers(1, 5))), st.integers(0, 30))
def test_what_is_left_of_ranges(ranges: list[tuple[int, int]], skipped: int) -> None:
    def each(some: list[tuple[int, int]]) -> list[int]:
        return [at for first, count in some for at in range(first, first + count)]

    assert each(list(rest_of(ranges, skipped))) == each(ranges)[skipped:]
