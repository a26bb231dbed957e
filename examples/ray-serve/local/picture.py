"""`python -m local.picture MEASURED.json OUT.svg`: where the time of a search goes, as bars."""

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt

from .measure import STEPS

matplotlib.use("svg")
# The same figures give the same bytes.
matplotlib.rcParams.update({"svg.hashsalt": "chiplet", "svg.fonttype": "none", "font.size": 10})

COLOURS = ["#c9ced6", "#6b8fd6", "#e0b354", "#b3452f", "#d98c7a", "#3f7f4f"]


def draw(found: list[dict[str, Any]], path: Path) -> None:
    rows = [row for row in found if row.get("hops")]
    modes = list(dict.fromkeys(row["mode"] for row in rows))
    figure, axes = plt.subplots(figsize=(8.2, 0.5 * len(modes) + 1.4))
    left = [0.0] * len(modes)
    for (name, step), colour in zip(STEPS.items(), COLOURS, strict=True):
        widths = [
            max(statistics.median(step(row["hops"]) for row in rows if row["mode"] == mode), 0.0) for mode in modes
        ]
        axes.barh(modes, widths, left=left, color=colour, label=name)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.invert_yaxis()
    axes.set_xlabel("ms of a search by one client, median")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(ncols=3, frameon=False, loc="lower center", bbox_to_anchor=(0.35, 1.0), fontsize=9)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
