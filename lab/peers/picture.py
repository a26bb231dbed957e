"""Pictures of what was measured: recall against queries a second, and against the bytes that a query reads.

One file a case. Lines end where a setting reaches no higher recall. Only our graphs tell their bytes.
"""

from statistics import median

import table

# Recalls below this are of no use, and would take most of the width.
LOWEST = 0.8


def draw(units, folder):
    """One SVG file a case into `folder`, with the median over rounds of each point. Returns the files."""
    import matplotlib

    matplotlib.use("svg")
    # The same file for the same figures.
    matplotlib.rcParams["svg.hashsalt"] = "chiplet"
    matplotlib.rcParams["svg.fonttype"] = "none"
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for case in dict.fromkeys(unit["case"] for unit in units):
        of_case = [unit for unit in units if unit["case"] == case and "part" not in unit]
        lines = {label: points(sweeps) for label, sweeps, _ in table.contenders(of_case)}
        figure, panels = pyplot.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
        for label, curve in lines.items():
            style = {"marker": "o", "markersize": 3, "linewidth": 1.4, "label": label}
            # Ours are drawn through, others dashed.
            style["linestyle"] = "-" if label.startswith("chiplet") else "--"
            seen = [point for point in curve if point[0] >= LOWEST]
            panels[0].plot([point[0] for point in seen], [point[1] for point in seen], **style)
            told = [point for point in seen if point[2]]
            panels[1].plot([point[0] for point in told], [point[2] for point in told], **style)
        for panel, title in zip(panels, ("queries a second, one thread", "KB a query, rows and links in cache lines")):
            panel.set(xlabel="recall", title=title, yscale="log")
            panel.grid(True, which="both", linewidth=0.3)
        figure.suptitle(f"{case}, {of_case[0]['rows']:,} x {of_case[0]['dim']}")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
        file = folder / f"{'-'.join(case.replace(',', '').replace('=', '').split())}.svg"
        figure.savefig(file, metadata={"Date": None})
        pyplot.close(figure)
        files.append(file)
    return files


def points(sweeps):
    """(recall, q/s, KB) of each parameter on one thread, by recall."""
    of = {}
    for sweep in sweeps:
        for entry in sweep["entries"]:
            if entry["threads"] == 1:
                of.setdefault(entry["param"], []).append(entry)
    found = []
    for entries in of.values():
        kb = [entry["kb_a_query"] for entry in entries if entry.get("kb_a_query")]
        rates = [entry["qps"] for entry in entries]
        found.append((entries[0]["recall_at_10"], median(rates), median(kb) if kb else None))
    return sorted(found)
