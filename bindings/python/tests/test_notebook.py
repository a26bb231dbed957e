"""The notebook runs as it stands in the sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

client: Any = pytest.importorskip("nbclient")
nbformat: Any = pytest.importorskip("nbformat")

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.mark.filterwarnings("ignore")
def test_the_notebook() -> None:
    notebook = nbformat.read(EXAMPLES / "words.ipynb", as_version=4)
    client.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(EXAMPLES)}}).execute()
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not any("stderr" in output.get("name", "") for output in shown), shown
    said = " ".join(output["data"].get("text/plain", "") for output in shown if "data" in output)
    assert "Hnsw(30000 rows of 50" in said and "cello" in said
    assert "image/png" in shown[-1]["data"]
