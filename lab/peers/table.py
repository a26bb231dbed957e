"""From measured points to the figures of a table: q/s at a recall, medians over rounds, ratios within a round.

**q/s at a recall.** Of a round's points (one for each ef or nprobe), those that another point beats in both recall and
q/s are left out. Between the two points around the recall, the logarithm of q/s is interpolated linearly over recall.
If even the cheapest point is above the recall, its q/s stand; if none reaches it, there is no figure.

**Ratios** are of one round, in which ours ran right after the peer: the best of ours over the peer, both at the same
recall. The table has the median over rounds, with the lowest and the highest.
"""

import math
from statistics import median

RECALLS = (0.90, 0.95, 0.99)

# Whether to count processor time instead of time, with --cpu-time.
CPU_TIME = False


def qps_at(points, recall):
    """q/s at `recall` of [(recall, qps)], or None.

    >>> round(qps_at([(0.9, 1000.0), (1.0, 10.0)], 0.95))
    100
    >>> qps_at([(0.97, 500.0), (0.99, 300.0)], 0.95)
    500.0
    >>> qps_at([(0.90, 500.0)], 0.95)
    >>> qps_at([(0.94, 80.0), (0.95, 100.0), (0.99, 50.0)], 0.94)
    100.0
    """
    front = []
    for point in sorted(points, reverse=True):
        if not front or point[1] > front[-1][1]:
            front.append(point)
    front.reverse()
    above = [point for point in front if point[0] >= recall]
    below = [point for point in front if point[0] < recall]
    if not above:
        return None
    (high, slow) = above[0]
    if not below or high == recall:
        return slow
    (low, fast) = below[-1]
    share = (recall - low) / (high - low)
    return math.exp(math.log(fast) + share * (math.log(slow) - math.log(fast)))


def at(sweep, recall, threads, key="qps"):
    """q/s of one round's entries at `recall`."""
    points = [
        (entry["recall_at_10"], entry[key] / (min(entry["cpu_share"], 1.0) if CPU_TIME else 1.0))
        for entry in sweep["entries"]
        if entry["threads"] == threads and entry.get(key)
    ]
    return qps_at(points, recall)


def figures(sweeps, recall, threads, key="qps"):
    """One contender's q/s at `recall`, a figure a round."""
    found = [at(sweep, recall, threads, key) for sweep in sweeps]
    return [qps for qps in found if qps is not None]


def ratios(unit, recall, threads):
    """The best of the others in the unit over the one that it is named after, a ratio a round."""
    found = []
    for round_number in sorted({sweep["round"] for sweep in unit["sweeps"]}):
        of_round = [sweep for sweep in unit["sweeps"] if sweep["round"] == round_number]
        peer = [at(sweep, recall, threads) for sweep in of_round if sweep["name"] == unit["name"]]
        ours = [at(sweep, recall, threads) for sweep in of_round if sweep["name"] != unit["name"]]
        ours = [qps for qps in ours if qps is not None]
        if ours and peer and peer[0] is not None:
            found.append(max(ours) / peer[0])
    return found


def markdown(units, builds, threads, left_out):
    """All tables of all cases. `units`: what compare.py keeps of each; `builds`: by (set, metric, build name)."""
    text = [note(units), *(f"Left out: {name}: {reason}.\n" for name, reason in left_out.items())]
    for case in dict.fromkeys(unit["case"] for unit in units):
        of_case = [unit for unit in units if unit["case"] == case]
        text += [f"### {case}, {of_case[0]['rows']:,} x {of_case[0]['dim']}", ""]
        peers = [unit for unit in of_case if "part" not in unit]
        for lines in (everything(peers, builds, threads), best(peers, threads), parts(of_case, threads)):
            text += [*lines, ""] if lines else []
    return "\n".join(text)


def note(units):
    shares = [entry["cpu_share"] for entry in entries(units)]
    if CPU_TIME:
        return "Queries a second of processor time, as other programs ran meanwhile.\n"
    if shares and median(shares) < 0.9:
        share = f"half of the points had less than {median(shares):.0%} of a core a thread"
        return f"**Other programs ran meanwhile**: {share}.\n"
    return ""


def entries(units):
    return [entry for unit in units for sweep in unit["sweeps"] for entry in sweep["entries"]]


def everything(units, builds, threads):
    """Each of ours and each setting of each library, with all its figures."""
    cases = [(count, recall) for count in threads for recall in RECALLS]
    head = ["index", *(f"q/s at {recall}, {on(count)}" for count, recall in cases)]
    # With --single.
    singles = RECALLS if any("single_qps" in entry for entry in entries(units)) else ()
    head += [f"one a call, {recall}" for recall in singles]
    head += ["bytes a vector: stored", "in memory", *(f"build s, {on(count)}" for count in threads)]
    lines = [line(head), line(["---"] + ["--:"] * (len(head) - 1))]
    for label, sweeps, unit in contenders(units):
        cells = [spread(figures(sweeps, recall, count)) for count, recall in cases]
        cells += [spread(figures(sweeps, recall, 1, "single_qps")) for recall in singles]
        built = builds.get((units[0]["set"], units[0]["metric"], unit["build"] if unit else label), {})
        entry = sweeps[0]["entries"][0]
        cells.append(number(built.get("stored_bytes_per_vector", entry.get("bytes_per_vector"))))
        cells.append(number(entry.get("resident_bytes_per_vector")))
        seconds = built.get("build_cpu_s" if CPU_TIME else "build_s", {})
        seconds = {int(count): value / (int(count) if CPU_TIME else 1) for count, value in seconds.items()}
        cells += [number(seconds.get(count)) for count in threads]
        lines.append(line([label, *cells]))
    return lines


def best(units, threads):
    """The best of ours over the best setting of each library; above 1 ours is ahead. Nothing without ours."""
    cases = [(count, recall) for count in threads for recall in RECALLS]
    lines = []
    for library in dict.fromkeys(unit["library"] for unit in units):
        cells = []
        for count, recall in cases:
            known = []
            for unit in units:
                mine = [sweep for sweep in unit["sweeps"] if sweep["name"] == unit["name"]]
                rates = figures(mine, recall, count)
                if unit["library"] == library and rates:
                    known.append((median(rates), unit))
            fastest = max(known, key=lambda found: found[0])[1] if known else None
            found = ratios(fastest, recall, count) if fastest else []
            cells.append(f"{spread(found, 2)} {fastest['name']}" if found else "")
        if any(cells):
            lines.append(line([library, *cells]))
    if not lines:
        return []
    head = ["best of ours / best of", *(f"{recall}, {on(count)}" for count, recall in cases)]
    return [line(head), line(["---"] + ["--:"] * len(cases)), *lines]


def parts(units, threads):
    """What each part brings: our variants that are measured against the first of ours only."""
    units = [unit for unit in units if "part" in unit]
    if not units:
        return []
    cases = [(count, recall) for count in threads for recall in RECALLS]
    head = ["part", *(f"q/s to {units[0]['name']}, {recall}, {on(count)}" for count, recall in cases)]
    lines = [line(head), line(["---"] + ["--:"] * len(cases))]
    for unit in units:
        lines.append(line([unit["part"], *(spread(ratios(unit, recall, count), 2) for count, recall in cases)]))
    return lines


def on(count):
    return f"{count} thread{'s' * (count > 1)}"


def contenders(units):
    """(name, sweeps, unit) of ours, all sweeps of one name together, then of each peer."""
    ours = {}
    for unit in units:
        for sweep in unit["sweeps"]:
            if sweep["name"] != unit["name"]:
                ours.setdefault(sweep["name"], []).append(sweep)
    listed = [(name, sweeps, None) for name, sweeps in ours.items()]
    for unit in units:
        listed.append((unit["name"], [sweep for sweep in unit["sweeps"] if sweep["name"] == unit["name"]], unit))
    return listed


def line(cells):
    return "| " + " | ".join(cells) + " |"


def number(value, digits=None):
    if value is None:
        return ""
    if digits is None:
        digits = 0 if value >= 100 else 1
    return f"{value:,.{digits}f}"


def spread(values, digits=None):
    """The median, with lowest and highest.

    >>> spread([3.0, 1.0, 2.0])
    '2.0 (1.0-3.0)'
    """
    if not values:
        return ""
    if len(values) == 1:
        return number(values[0], digits)
    return f"{number(median(values), digits)} ({number(min(values), digits)}-{number(max(values), digits)})"
