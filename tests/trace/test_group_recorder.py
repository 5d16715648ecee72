"""Rows of groups with the filter: among those of the site, under one numbering."""

from tests.core.groups.hand_groups import HandGroups

from reconvene.core.effects import Effects
from reconvene.core.groups.groups import Groups
from reconvene.core.options import Options
from reconvene.core.record import boot
from reconvene.core.site import Site
from reconvene.ids import Service
from reconvene.trace.events import Row
from reconvene.trace.group_recorder import GroupRecorder
from reconvene.trace.reader import check_row
from reconvene.trace.recorder import Recorder


class Recorded:
    """One site alone, which is its own majority."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.groups = Groups(Site(Options(return_unsent=True), 0, 1, boot(None, 0), 0), 1)
        recorder = Recorder("a", ["a"], self.rows)
        recorder.begin(1)
        self.groups.record()
        self.recorder = GroupRecorder(recorder)
        self.now = 0
        self.turn()

    def turn(self) -> list[Row]:
        self.now += 1
        before = len(self.rows)
        effects = Effects()
        self.groups.flush(self.now, effects)
        self.recorder.turn(self.now, effects.events, self.groups.take_notes())
        return self.rows[before:]


def kinds(rows: list[Row]) -> list[str]:
    return [f"{row.layer} {row.kind}" for row in rows]


def test_a_life_in_a_group() -> None:
    recorded = Recorded()
    groups = recorded.groups
    process = groups.open()
    bank = groups.join(process, "bank", True, 1)
    groups.join(process, "fleet", False, 1)
    joined = recorded.turn()
    assert kinds(joined) == ["evs send", "evs deliver", "vs view", "evs send", "evs deliver"]
    view = joined[2]
    assert (view.group, view.process, view.members, view.conf) == ("bank", "a:1:1", ["a:1:1"], "65536")
    assert (view.view, view.primary) == ((65536 << 20) + 1, 65536)
    groups.send(bank, Service.SAFE, [b"x", b"y"], None, 2)
    groups.send(bank, Service.SAFE, [b"for me"], (process,), 2)
    sent = recorded.turn()
    assert kinds(sent) == [
        *("evs send", "evs send", "evs send", "vs cast", "vs cast"),
        *("evs deliver", "evs deliver", "evs deliver", "vs deliver", "vs deliver"),
    ]
    cast, delivered, site = sent[4], sent[9], sent[6]
    assert (cast.msg, cast.service, cast.view, cast.process) == ("a:1:5", "safe", view.view, "a:1:1")
    assert (delivered.msg, delivered.sender, delivered.ts) == (cast.msg, "a:1:1", site.ts)
    groups.close(process, 3)
    left = recorded.turn()
    assert kinds(left) == ["evs send", "evs deliver", "vs stop"]
    assert [row.n for row in recorded.rows] == list(range(len(recorded.rows)))
    assert [check_row(row) for row in recorded.rows] == [None] * len(recorded.rows)


def test_who_is_blocked_stops_and_is_someone_else_afterwards() -> None:
    hand = HandGroups("abc")
    hand.settle()
    rows: list[Row] = []
    recorder = Recorder("c", ["a", "b", "c"], rows)
    recorder.begin(1)
    hand.groups["c"].record()
    recording = GroupRecorder(recorder)
    process = hand.open("c")
    hand.join(process, "bank", True)
    hand.run(50)
    hand.partition("ab", "c")
    hand.settle("c")
    hand.heal()
    hand.settle()
    # Its site's own events were not kept here: what matters is the order of the others.
    notes = hand.groups["c"].take_notes()
    for note in notes:
        recording._note(0, note)
    assert [(row.kind, row.process) for row in rows] == [("view", "c:1:1"), ("stop", "c:1:1"), ("view", "c:1:2")]
    assert rows[0].view == rows[1].view
