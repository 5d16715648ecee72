"""What a site logs about its configurations: to lose something is a warning."""

import logging

from tests.client.places import LogLines

from reconvene.core.effects import Changed, ConfKind
from reconvene.runtime.site.notes import SiteNotes


class Levels(LogLines):
    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        self.lines[-1] = f"{record.levelname} {self.lines[-1]}"


def notes() -> tuple[SiteNotes, Levels]:
    log, lines = logging.Logger("site"), Levels()
    log.addHandler(lines)
    return SiteNotes(log, ("a", "b", "c")), lines


def regular(number: str, *members: int) -> Changed:
    return Changed(ConfKind.REGULAR, number, members)


def test_a_lost_member_is_a_warning() -> None:
    site, lines = notes()
    site.events([regular("1a", 0)])
    site.events([regular("2a", 0, 1, 2)])
    site.events([Changed(ConfKind.TRANSITIONAL, "2a", (0, 1)), regular("3a", 0, 1)])
    site.events([Changed(ConfKind.HIDDEN, "4a", (0, 2))])
    site.events([regular("5a", 0, 2)])
    assert lines.lines == [
        "INFO configuration: number=1a members=a",
        "INFO configuration: number=2a members=a,b,c",
        "WARNING configuration: number=3a members=a,b lost=c",
        "INFO hidden configuration: number=4a members=a,c",
        "WARNING configuration: number=5a members=a,c lost=b",
    ]


def test_a_lost_majority_is_a_warning() -> None:
    site, lines = notes()
    for health in ("minority", "forming", "primary", "forming", "minority", "forming", "minority", "primary"):
        site.health_is(health, "x")
    assert lines.lines == [
        "INFO health: health=minority configuration=x",
        "INFO health: health=primary configuration=x",
        "WARNING health: health=minority configuration=x",
        "INFO health: health=minority configuration=x",
        "INFO health: health=primary configuration=x",
    ]
