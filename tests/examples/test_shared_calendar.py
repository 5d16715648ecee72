"""The shared calendar on the screens of two terminals, with real sites and processes that are killed."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "examples/shared_calendar.py"
PATIENCE_S = 60


class Terminal:
    """A pseudo-terminal with one program in it. It knows as much of a terminal as the program needs: where a drawing
    begins, and the end of lines."""

    def __init__(self, *arguments: str) -> None:
        self._end, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, PROGRAM, *arguments], stdin=inside, stdout=inside, stderr=inside, start_new_session=True
        )
        os.close(inside)
        self._seen = ""

    def type(self, text: str) -> None:
        os.write(self._end, text.encode())

    def screen(self) -> list[str]:
        """The last drawing that is whole."""
        drawings = self._seen.replace("\x1b[?1049h", "").split("\x1b[H")[1:]
        whole = [drawing for drawing in drawings if "\x1b[J" in drawing]
        text = re.sub(r"\x1b\[[?0-9]*[a-zA-Z]", "", whole[-1].partition("\x1b[J")[0]) if whole else ""
        return text.split("\r\n")

    def until(self, *texts: str) -> list[str]:
        """Waits until the screen shows all of them."""
        give_up_at = time.monotonic() + PATIENCE_S
        while not all(any(text in line for line in self.screen()) for text in texts):
            assert time.monotonic() < give_up_at, (texts, "\n".join(self.screen()), self._seen[-2_000:])
            if select.select([self._end], [], [], 0.1)[0]:
                self._seen = (self._seen + os.read(self._end, 65_536).decode())[-20_000:]
        return self.screen()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._end)


@contextmanager
def served() -> Iterator[tuple[list[list[str]], dict[str, int]]]:
    """The arguments of the screens, and the numbers of the processes to kill."""
    process = subprocess.Popen([sys.executable, PROGRAM, "serve"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    screens, pids, site = [], {}, ""
    try:
        for line in process.stdout:
            words = line.split()
            if "screen" in words:
                screens.append(words[2:])
            elif words[:2] == ["kill", "-9"]:
                site = words[4] if words[3] == "site" else f"keeper {site}"
                pids[site] = int(words[2])
            elif words[0] == "Ctrl-C":
                break
        yield screens, pids
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)
        process.stdout.close()


@pytest.mark.long("real sites and processes, for ten seconds; the calendar by itself is in the short suite")
def test_two_screens_while_processes_and_a_site_are_killed() -> None:
    with served() as (screens, pids):
        ann, ben = (Terminal(*arguments) for arguments in screens)
        try:
            ann.until("ann at site a", "5 copies")
            ben.until("ben at site b", "5 copies")
            ann.type("mon 9 dentistt\x7f\r")
            ann.until("booked: mon 9:00 dentist")
            ben.until("ann: dentist")
            ben.type("mon 9 yoga\r")
            ben.until("mon 9:00 is taken: ann: dentist")
            ben.type("yesterday\r")
            ben.until("'yesterday': DAY HOUR WHAT books")

            os.kill(pids["keeper b"], signal.SIGKILL)
            ben.type("tue 10 yoga\r")
            ben.until("booked: tue 10:00 yoga", "4 copies")

            ann.type("wed 12 lunch\r")
            os.kill(pids["a"], signal.SIGKILL)  # ann's site
            ann.until("booked: wed 12:00 lunch", "ann at site b", "3 copies")
            assert ben.until("ann: lunch", "ann: dentist", "3 copies")[2:12] == ann.screen()[2:12]

            ben.process.kill()
            ann.until("2 copies")
            ann.type("mon 9 -\r")
            shown = ann.until("cancelled: mon 9:00 dentist")
            assert not any("ann: dentist" in line for line in shown)
            ann.type("q\r")
            assert ann.process.wait(30) == 0
        finally:
            ann.close()
            ben.close()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["screen", "ann", "/nowhere/site.sock"], "screen: a terminal expected"),
        (["keep", "nowhere"], "shared_calendar: "),
        (["sit"], "invalid choice: 'sit'"),
    ],
)
def test_bad_input(arguments: list[str], expected: str) -> None:
    done = subprocess.run(
        [sys.executable, PROGRAM, *arguments], check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 2
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
