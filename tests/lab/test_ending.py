"""A program that is ended by SIGTERM ends what it started."""

import os
import signal
import time

import pytest

from reconvene.lab.ending import unwinds_on_sigterm


def _wait(ended: list[int]) -> None:
    with unwinds_on_sigterm():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        finally:
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, "a second one ends it at once"
            ended.append(1)


def test_sigterm_unwinds_also_out_of_a_wait() -> None:
    before = signal.getsignal(signal.SIGTERM)
    ended: list[int] = []
    with pytest.raises(SystemExit) as exit_:
        _wait(ended)
    assert exit_.value.code == 128 + signal.SIGTERM
    assert ended == [1]
    assert signal.getsignal(signal.SIGTERM) is before


def test_without_a_signal_nothing_changes() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with unwinds_on_sigterm():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
