"""The notebook of examples/ is executed, cell by cell, in a kernel of its own: against real sites and Spark."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "examples/trace_to_verdict.ipynb"


def read() -> Any:
    return nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]


def said(cell: Any) -> str:
    """What it printed, and its value as text."""
    return "".join(
        output.get("text", "") + output.get("data", {}).get("text/plain", "") for output in cell.get("outputs", [])
    )


@pytest.mark.long("starts three sites and a JVM")
def test_from_a_trace_to_a_verdict(tmp_path: Path) -> None:
    notebook = read()
    client = NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()  # raises where a cell does
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    made, counted, *_, measured, judged, _ = cells
    assert "run.json" in said(made)
    assert "corel" in said(counted)
    drawn = [output for cell in cells for output in cell.outputs if "image/png" in output.get("data", {})]
    assert len(drawn) == 2
    waited = int(said(measured).split()[0])
    assert waited > 0, "site c was cut off, and accepted"
    assert "0 of them still wait" in said(measured)
    assert "ok: True\n" in said(judged)
    assert "violations" in said(judged)
    assert not list(tmp_path.glob("*.html")), "it leaves nothing behind"


def test_it_is_kept_without_its_results() -> None:
    """They differ in each run, and would be in every change of it."""
    for cell in read().cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
