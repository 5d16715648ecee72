"""What Spark passes on of an error is its traceback's text: the line that matters has to be at the top."""

import builtins
import io
from collections.abc import Callable, Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.util import handle_worker_exception

from pyspark_reconvene import DefaultSource
from reconvene.errors import Malformed, Rejected
from reconvene.pipeline.first_line import first_line, first_line_of_each
from reconvene.pipeline.refusals import plain_errors
from reconvene.pipeline.source.route import Lost

Told = Callable[[Callable[[], object]], list[str]]


@pytest.fixture(params=["simplified", "with causes"])
def told(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Told:
    """The text as PySpark makes it, with its default setting and without."""
    if request.param == "simplified":
        monkeypatch.setenv("SPARK_SIMPLIFIED_TRACEBACK", "1")

    def text_of(work: Callable[[], object]) -> list[str]:
        out = io.BytesIO()
        try:
            work()
        except Exception as error:
            handle_worker_exception(error, out)
        return out.getvalue()[8:].decode().splitlines()

    return text_of


def frames_before(lines: list[str], useful: str) -> int:
    at = next(at for at, line in enumerate(lines) if line.startswith("reconvene."))
    assert useful in lines[at]
    # The frame of this file that PySpark's worker has in its place is not counted.
    return max(0, sum(line.startswith("  File ") for line in lines[:at]) - 1)


def test_the_class_and_the_sentence_are_at_the_top(told: Told) -> None:
    @first_line
    def fails() -> None:
        raise Lost(3, 9)

    @first_line_of_each
    def numbers() -> Iterator[int]:
        yield 1
        raise Malformed("no number")

    lines = told(fails)
    assert frames_before(lines, ": position 3 is not in the log any more: it was truncated") <= 1
    assert lines[lines.index("It was raised here (most recent call last):") :][-1].strip() == "raise Lost(3, 9)"
    assert frames_before(told(lambda: list(numbers())), "reconvene.errors.Malformed: no number") <= 2
    with pytest.raises(Lost):
        fails()


def test_also_of_the_sources_own_methods(told: Told) -> None:
    lines = told(lambda: DefaultSource({"adresses": "a:1"}).schema())
    line = "reconvene.errors.Malformed: option adresses: not known; did you mean addresses?"
    assert frames_before(lines, line) <= 3


def test_a_python_that_lacks_the_package_is_named(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    really = builtins.__import__

    def without(name: str, *given: object, **named: object) -> object:
        if name.startswith("reconvene.pipeline.source"):
            raise ModuleNotFoundError("No module named 'msgspec'", name="msgspec")
        return really(name, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    lines = told(lambda: DefaultSource({"addresses": "a:1"}).schema())
    assert lines[-1].startswith("ModuleNotFoundError: No module named 'msgspec': ")
    assert "every executor's need reconvene[spark]" in lines[-1]


def test_what_spark_itself_refuses_leads_to_the_right_call() -> None:
    mode = (
        '[UNSUPPORTED_DATA_SOURCE_SAVE_MODE] The data source "reconvene" cannot be written in the "ErrorIfExists" '
        'mode. Please use either the "Append" or "Overwrite" mode instead. SQLSTATE: 0A000'
    )
    with pytest.raises(Malformed, match=r'expected \.mode\("append"\)'), plain_errors():
        raise PySparkException(mode)
    two = "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs detected for 3."
    with pytest.raises(Rejected, match="two streams have one checkpoint: expected a check"), plain_errors():
        raise PySparkException(two)
