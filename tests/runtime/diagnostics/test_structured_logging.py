"""Each event is one line, whatever its fields contain."""

import io
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconvene.runtime.config.settings import Logging
from reconvene.runtime.diagnostics import structured_logging as logs
from reconvene.runtime.diagnostics.structured_logging import DEBUG, ERROR, INFO, WARNING, audit, event, logger


@pytest.fixture(autouse=True)
def untouched() -> Iterator[None]:
    root = logging.getLogger(logs.ROOT)
    handlers, level, propagate = list(root.handlers), root.level, root.propagate
    yield
    root.handlers[:], root.propagate = handlers, propagate
    root.setLevel(level)


def configured(**options: str) -> io.StringIO:
    stream = io.StringIO()
    logs.configure(Logging(**options), stream)
    return stream


def test_text() -> None:
    stream = configured()
    event(logger("site"), INFO, "configuration", number=65537, members=["a", "b"], health="primary", reg=None)
    when, rest = stream.getvalue().split(" ", 1)
    assert rest == "info site configuration number=65537 members=a,b health=primary\n"
    assert when.endswith("Z")
    assert len(when) == len("2026-03-01T12:00:00.000Z")


def test_json() -> None:
    stream = configured(format="json")
    event(logger("site"), WARNING, "suspicion", site="b", silent_s=0.63, level="mine", of=(1, 2))
    line = json.loads(stream.getvalue())
    del line["time"]
    assert line == {
        "level": "warning",
        "part": "site",
        "event": "suspicion",
        "site": "b",
        "silent_s": 0.63,
        "level_": "mine",
        "of": [1, 2],
    }


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("value", ["two\nlines", "a\rb", "\x1b[2J", "q\"uote'", "\u2028", "", "a b=c", b"\xff\n"])
def test_nothing_in_a_field_breaks_the_line(form: str, value: object) -> None:
    stream = configured(format=form)
    event(logger("udp"), INFO, "refused", why=value)
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert len(text.splitlines()) == 1
    assert text.isascii()
    assert "\x1b" not in text
    if form == "json":
        assert json.loads(text)["why"] == str(value)


def test_a_long_value_is_cut_off() -> None:
    stream = configured()
    event(logger("udp"), INFO, "refused", why="x" * 100_000)
    assert len(stream.getvalue()) < 2_100


def test_levels() -> None:
    stream = configured(level="warning")
    event(logger("udp"), INFO, "quiet")
    assert stream.getvalue() == ""


def test_configuring_again_replaces() -> None:
    first, second = configured(), configured()
    event(logger("udp"), INFO, "once")
    assert first.getvalue() == ""
    assert second.getvalue().count("\n") == 1


def test_an_exception_is_fields_too() -> None:
    stream = configured()
    try:
        raise ValueError("a b")
    except ValueError:
        logger("site").exception("fault")
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert 'error="ValueError: a b"' in text
    assert "traceback=" in text


def test_what_repeats_is_told_sparingly(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1_000.0]
    monkeypatch.setattr("time.time", lambda: clock[0])
    stream = configured()
    for count in range(1_000):
        event(logger("udp"), WARNING, "refused", number=count)
    assert stream.getvalue().count("\n") == logs.BURST
    event(logger("udp"), WARNING, "other")
    assert stream.getvalue().count("\n") == logs.BURST + 1  # another kind of event is still logged
    clock[0] += logs.WINDOW_S
    event(logger("udp"), WARNING, "refused", number=1)
    assert f"left_out={1_000 - logs.BURST}" in stream.getvalue().splitlines()[-1]
    clock[0] += logs.WINDOW_S
    event(logger("udp"), WARNING, "refused", number=2)
    assert "left_out" not in stream.getvalue().splitlines()[-1]


def test_audit_lines_are_never_left_out() -> None:
    stream = configured(level="error")
    for number in range(2 * logs.BURST):
        audit("faults injected", "ops@10.0.0.1:5000", number=number)
    event(logger("site"), WARNING, "below the level")
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2 * logs.BURST
    assert lines[0].endswith('info audit "faults injected" by=ops@10.0.0.1:5000 number=0')


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_journal_gets_priorities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    with (tmp_path / "journal").open("w+") as stream:
        found = os.fstat(stream.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{found.st_ino}")
        logs.configure(Logging(level="debug", format=form), stream)
        for level in (DEBUG, INFO, WARNING, ERROR):
            event(logger("site"), level, "x")
        audit("y", "me")
        stream.seek(0)
        lines = stream.read().splitlines()
    assert [line[:3] for line in lines] == ["<7>", "<6>", "<4>", "<3>", "<5>"]
    assert form == "text" or json.loads(lines[4][3:])["event"] == "y"


def test_a_stream_that_is_not_the_journal_gets_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOURNAL_STREAM", "1:2")  # of the service that started a program with another stderr
    with (tmp_path / "log").open("w+") as stream:
        logs.configure(Logging(), stream)
        event(logger("site"), INFO, "x")
        stream.seek(0)
        assert stream.read(1) == "2"
