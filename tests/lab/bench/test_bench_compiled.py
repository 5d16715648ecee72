"""What `bench compiled` says where it can't compare. tests/compiled runs it where it can."""

import pytest

from reconvene.cli import main


def test_it_needs_the_compiled_build(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["bench", "compiled"])
    assert exit_.value.code == 2
    assert capsys.readouterr().err == (
        "reconvene: bench compiled: expected the compiled build, this one is pure: run `make compiled`,"
        " or `pip install .` where there is a C compiler\n"
    )
