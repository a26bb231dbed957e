#!/usr/bin/env python3
"""Compares the search of chiplet's tables with the libraries that users would pick instead.

`make peers` installs those from PyPI into target/peers and runs this. Everything gets the same vectors, the same
held-out queries and the same exact neighbours: squared Euclidean distance, k = 10, M = 16, ef_construction = 200.

A library is measured through its batch call on one thread and on two, as a Python call for each query would cost it
more than the search; one query a call is measured too, and shown beside it. Ours are measured by
`chiplet bench --direct`, query by query. After each round of a library follows a round of each of ours, so that
whatever else the machine does falls on both; ratios are within a round. One process works at a time.

What is measured is kept under target/peers: indexes/ and builds/ for each data set, results/ for each data set and
library. A second run continues where the first was stopped, and measures again only what has changed: the library's
version, the rounds, our variants (ours.py) or the chiplet command.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import table
import vectors
from ours import OURS, PARTS
from peers import PEERS

HERE = Path(__file__).resolve().parent
WORKER = HERE / "worker.py"

# Steps of about a factor 1.4, fine enough to interpolate between.
GRID = [10, 14, 20, 28, 40, 56, 80, 112, 160, 224, 320, 448, 640, 896, 1280, 1792]
NPROBE_GRID = [1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 90, 128, 181, 256]

EXAMPLES = """\
examples:
  make peers QUICK=1                       a couple of minutes: one small data set, one round
  make peers                               everything; an hour or two the first time, as all indexes are built
  make peers ARGS="--only glove-30k"       one data set
  make peers ARGS="--only glove-30k --peer hnswlib,glass --rounds 9"
  make peers ARGS="--no-ours"              the libraries alone
  make peers ARGS='--only glove-400k --ours "chiplet HNSW f32,chiplet HNSW SQ8 re-ranked"'
  make peers ARGS="--tables-only"          the tables again, from what was measured

The tables go to standard output and to target/peers/tables.md, all figures to target/peers/results.json.
To measure a library again remove its file under target/peers/results, or give --redo."""


def main():
    options = arguments()
    folder = options.folder
    peers = [peer for peer in PEERS if begins(peer.name, options.peer)]
    units, builds = [], {}
    try:
        for name in options.only:
            for unit, built in measure_set(options, folder, name, peers):
                units.append(unit)
                builds.update(built)
                write(folder / "results.json", {"units": units, "builds": listed(builds)})
    except KeyboardInterrupt:
        print("\nstopped; what was measured is kept, and the next run goes on from there", file=sys.stderr)
        sys.exit(130)
    text = table.markdown(units, builds, options.threads)
    (folder / "tables.md").write_text(text)
    print(text)


def arguments():
    parser = argparse.ArgumentParser(
        prog="make peers",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )

    def names(text):
        return text.split(",")

    parser.add_argument("--only", type=names, metavar="A,B",
                        help=f"data sets; all without it: {', '.join(vectors.SETS)}")
    parser.add_argument("--peer", type=names, metavar="A,B", help="libraries whose names begin so; all without it")
    parser.add_argument("--ours", type=names, metavar="A,B", help="our variants whose names begin so; all without it")
    parser.add_argument("--family", choices=["hnsw", "ivf", "all"], default="hnsw", help="which indexes (%(default)s)")
    parser.add_argument("--rounds", type=int, help="of each library (5, quick 1)")
    parser.add_argument("--seconds", type=float, help="at least, of each point of a round (0.5, quick 0.2)")
    parser.add_argument("--threads", type=lambda text: [int(n) for n in names(text)], default=[1, 2], metavar="1,2",
                        help="searching threads, and building threads for the build time")
    parser.add_argument("--no-ours", action="store_true", help="the libraries alone")
    parser.add_argument("--quick", action="store_true", help="glove-30k, one round, short")
    parser.add_argument("--redo", action="store_true", help="measure again what was measured; built indexes are kept")
    parser.add_argument("--tables-only", action="store_true", help="measure nothing")
    parser.add_argument("--cpu-time", action="store_true",
                        help="count processor time in the tables, where others use the machine; not for publishing")
    parser.add_argument("--chiplet", type=Path, default=vectors.REPOSITORY / "target/release/chiplet",
                        help="the command (%(default)s)")
    parser.add_argument("--folder", type=Path, default=vectors.REPOSITORY / "target/peers", help="(%(default)s)")
    options = parser.parse_args()
    usual = (["glove-30k"], 1, 0.2) if options.quick else (list(vectors.SETS), 5, 0.5)
    options.only, options.rounds, options.seconds = (
        chosen if chosen is not None else default
        for chosen, default in zip((options.only, options.rounds, options.seconds), usual)
    )
    for name in options.only:
        if name not in vectors.SETS:
            parser.error(f"{name!r} is no data set: give some of {', '.join(vectors.SETS)}")
    if options.rounds < 1 or options.seconds <= 0 or min(options.threads) < 1:
        parser.error("--rounds, --seconds and --threads must be above 0")
    table.CPU_TIME = options.cpu_time
    if not options.no_ours and not options.tables_only and not options.chiplet.exists():
        parser.error(f"{options.chiplet} is not there: cargo build --release -p chiplet-cli --features faiss, or give --no-ours")
    return options


def begins(name, beginnings):
    return beginnings is None or any(slug(name).startswith(slug(beginning)) for beginning in beginnings)


def measure_set(options, folder, name, peers):
    """Yields what is known of each library on one data set, measuring what is not known yet."""
    data = vectors.load(folder / "data", name)
    for family in ("hnsw", "ivf") if options.family == "all" else (options.family,):
        with Ours(options, data, family) as ours:
            for peer in (peer for peer in peers if peer.family == family):
                unit = measure_peer(options, folder, data, peer, ours)
                if unit:
                    yield unit, read_builds(folder, data, peer, ours)
            for variant in PARTS if ours.variants else ():
                if variant.family == family and (unit := measure_part(options, folder, data, variant, ours)):
                    yield unit, read_builds(folder, data, None, ours)


def measure_peer(options, folder, data, peer, ours):
    file = folder / "results" / data.name / f"{slug(peer.name)}.json"
    settings = {"version": peer.version, "setting": peer.setting, **ours.settings}
    known = usable(options, file, settings)
    if known or options.tables_only:
        return known
    index = build_peer(options, folder, data, peer)
    command = [WORKER, "search", folder / "data", data.name, peer.name, index, options.seconds, comma(options.threads)]
    with Process(peer.name, [sys.executable, *command], folder / "log" / f"{slug(peer.name)}.log") as process:
        contender = Contender(peer.name, process, grid(peer.family), " recall", " single")
        sweeps = rounds(options, data.name, [contender, *ours.contenders()])
    unit = described(data, peer.name, peer.family, settings, sweeps)
    unit |= {"library": peer.package, "build": peer.build_name}
    write(file, unit)
    return unit


def measure_part(options, folder, data, variant, ours):
    """One of PARTS in turn with the first of OURS, which the unit is named after."""
    file = folder / "results" / data.name / f"part-{slug(variant.name)}.json"
    settings = {"part": vars(variant), **ours.settings}
    known = usable(options, file, settings)
    if known or options.tables_only:
        return known
    base = ours.contenders()[0]
    say(f"{data.name}: {variant.name}")
    with ours.process(variant) as process:
        sweeps = rounds(options, data.name, [base, Contender(variant.name, process, grid(variant.family))])
    unit = described(data, base.name, variant.family, settings, sweeps) | {"part": variant.name}
    write(file, unit)
    return unit


def described(data, name, family, settings, sweeps):
    """What is kept of a measurement; `name` is whose sweeps the others are compared with."""
    return {
        "set": data.name,
        "rows": len(data.rows),
        "dim": data.rows.shape[1],
        "name": name,
        "family": family,
        "settings": settings,
        "sweeps": sweeps,
    }


def build_peer(options, folder, data, peer):
    """The file of the built index; built for its time once on each number of threads, on one thread for keeps."""
    index = folder / "indexes" / data.name / slug(peer.build_name)
    index.parent.mkdir(parents=True, exist_ok=True)
    for threads in sorted(options.threads, reverse=True):
        file = build_file(folder, data.name, peer.build_name, threads)
        known = read(file)
        path = index if threads == min(options.threads) else index.with_name(index.name + ".timed")
        if known and known["version"] == peer.version and (path != index or index.exists()):
            continue
        say(f"{data.name}: {peer.build_name}, building on {threads} thread{'s' * (threads > 1)}")
        command = [WORKER, "build", folder / "data", data.name, peer.name, path, threads]
        with Process(peer.name, [sys.executable, *command], folder / "log" / f"{slug(peer.name)}.log") as process:
            write(file, {"version": peer.version, **process.answer()})
        if path != index:
            remove(path)
    return index


def build_file(folder, set_name, build_name, threads):
    return folder / "builds" / set_name / f"{slug(build_name)}.{threads}.json"


def read_builds(folder, data, peer, ours):
    """Build figures of a library and of ours: {(set, build name): {"build_s": {threads: seconds}, ..}}."""
    found = {}
    for name in ([peer.build_name] if peer else []) + ours.names:
        for threads in ours.options.threads:
            known = read(build_file(folder, data.name, name, threads))
            if known:
                built = found.setdefault((data.name, name), {"build_s": {}, "build_cpu_s": {}})
                for key in ("build_s", "build_cpu_s"):
                    if key in known:
                        built[key][str(threads)] = known[key]
                # A glass file has links only: its rows are quantised when it is loaded.
                if "stored_bytes_per_vector" in known and not (peer and name == "glass"):
                    built["stored_bytes_per_vector"] = known["stored_bytes_per_vector"]
    return found


def rounds(options, set_name, contenders):
    """Sweeps of all contenders in turn. The first time tells each which points lie around the recalls."""
    for contender in contenders:
        say(f"{set_name}: {contender.name}, looking for the recalls")
        contender.look()
    sweeps = []
    for number in range(options.rounds):
        for contender in contenders:
            say(f"{set_name}: {contender.name}, round {number + 1} of {options.rounds}")
            sweeps.append({"name": contender.name, "round": number, "entries": contender.sweep()})
    say("")
    return sweeps


class Contender:
    """Something that answers cues with points, and the parameters worth measuring."""

    def __init__(self, name, process, grid, look="", sweep=""):
        self.name = name
        self.process = process
        self.grid = grid
        self.words = {"look": look, "sweep": sweep}  # said after the parameters
        self.params = None

    def look(self):
        """Goes up the grid until the highest recall is reached, and keeps the points around each recall."""
        if self.params:
            return
        recalls = []
        for param in self.grid:
            recalls.append(self.process.ask(str(param) + self.words["look"])[0]["recall_at_10"])
            if recalls[-1] >= max(table.RECALLS):
                break
            # Quantised rows stop getting better below a recall that they cannot reach.
            if len(recalls) > 4 and recalls[-1] - recalls[-4] < 5e-4:
                break
        keep = set()
        for recall in table.RECALLS:
            above = next((place for place, value in enumerate(recalls) if value >= recall), None)
            if above is not None:
                keep |= {above, max(above - 1, 0)}
        # Where no recall is reached, one point says so.
        self.params = [self.grid[place] for place in sorted(keep or {len(recalls) - 1})]

    def sweep(self):
        return self.process.ask(comma(self.params) + self.words["sweep"])


class Ours:
    """Our variants of one family on one data set. Each is built when first needed, and stays for all libraries."""

    def __init__(self, options, data, family):
        self.options = options
        self.data = data
        chosen = [] if options.no_ours else OURS
        self.variants = [one for one in chosen if one.family == family and begins(one.name, options.ours)]
        self.names = [variant.name for variant in self.variants]
        self.running = None
        self.settings = {"rounds": options.rounds, "seconds": options.seconds, "threads": options.threads}
        if self.variants and not options.tables_only:
            digest = hashlib.sha256(options.chiplet.read_bytes()).hexdigest()
            self.settings |= {"chiplet": digest, "ours": [vars(variant) for variant in self.variants]}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for contender in self.running or []:
            contender.process.__exit__()

    def contenders(self):
        if self.running is None:
            self.running = []
            for variant in self.variants:
                self.build_times(variant)
                self.running.append(Contender(variant.name, self.process(variant), grid(variant.family)))
        return self.running

    def process(self, variant):
        """The command, which loads the table, or builds and keeps it."""
        file = self.index(variant)
        command = [*self.command(variant, grid(variant.family)), "--threads", comma(self.options.threads), "--cue"]
        return Process(variant.name, [*command, "--file", file], self.log(variant), variant.environment)

    def index(self, variant):
        """The table's file: one for all variants that build alike with this command."""
        options = iter(variant.options)
        alike = []
        for word in options:
            if word in ("--pages", "--together"):
                next(options)
            elif word != "--index":
                alike.append(word)
        folder = self.options.folder / "indexes" / self.data.name
        folder.mkdir(parents=True, exist_ok=True)
        digest = self.settings["chiplet"][:12]
        for old in folder.glob("chiplet-*"):
            if digest not in old.name:
                remove(old)
        return folder / f"chiplet-{slug(' '.join(alike)).replace('--', '')}-{digest}"

    def build_times(self, variant):
        """Builds on each number of threads, the fewest for keeps; a number that the table refuses leaves no time."""
        for threads in sorted(self.options.threads, reverse=True):
            file = build_file(self.options.folder, self.data.name, variant.name, threads)
            known = read(file)
            version = self.settings["chiplet"]
            keep = threads == min(self.options.threads)
            if known and known["version"] == version and (not keep or self.index(variant).exists()):
                continue
            say(f"{self.data.name}: {variant.name}, building on {threads} thread{'s' * (threads > 1)}")
            found = file.with_suffix(".partial")
            found.parent.mkdir(parents=True, exist_ok=True)
            command = [*self.command(variant, [10]), "--rounds", 1, "--json", found]
            environment = {**variant.environment, "OMP_NUM_THREADS": str(threads)}  # for Faiss
            if variant.family == "hnsw":
                command += ["--build-threads", threads]
            if keep:
                # Built for its time, whether another variant has left the same table or not.
                self.index(variant).unlink(missing_ok=True)
                command += ["--file", self.index(variant)]
            with Process(variant.name, command, self.log(variant), environment) as process:
                if process.child.wait() == 0:
                    entry = read(found)[0]
                    write(file, {"version": version, **{key: entry[key] for key in ("build_s", "build_cpu_s")}})
                else:
                    file.unlink(missing_ok=True)
            found.unlink(missing_ok=True)

    def command(self, variant, params):
        sweep = "--ef" if variant.family == "hnsw" else "--nprobe"
        lists = str(int(4 * len(self.data.rows) ** 0.5))
        return [
            self.options.chiplet, "bench", "--direct", "--data", self.data.file, "--metric", "l2",
            "--queries", vectors.QUERIES, "--k", vectors.K, sweep, comma(params),
            "--duration", self.options.seconds, *(option.replace("NLIST", lists) for option in variant.options),
        ]  # fmt: skip

    def log(self, variant):
        return self.options.folder / "log" / f"{slug(variant.name)}.log"


class Process:
    """A child that answers lines with lines of JSON. What else it says goes to `log`."""

    def __init__(self, name, command, log, environment=None):
        log.parent.mkdir(parents=True, exist_ok=True)
        self.name, self.log = name, log
        with open(log, "w") as out:
            # A session of its own: Ctrl-C reaches this program only, which then ends the child.
            self.child = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=out,
                text=True,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )

    def ask(self, cue):
        self.child.stdin.write(cue + "\n")
        self.child.stdin.flush()
        return self.answer()

    def answer(self):
        line = self.child.stdout.readline()
        if not line:
            said = self.log.read_text(errors="replace").strip().splitlines()[-5:]
            status = f"\n{self.name} ended without an answer (status {self.child.wait()}); {self.log} ends with:"
            sys.exit("\n".join([status, *said]))
        return json.loads(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.terminate()
        self.child.communicate()


def grid(family):
    return GRID if family == "hnsw" else NPROBE_GRID


def usable(options, file, settings):
    """What `file` holds, if it was measured with these settings, or if nothing is to be measured."""
    known = read(file)
    if known and (options.tables_only or (not options.redo and known["settings"] == settings)):
        return known
    return None


def listed(builds):
    return [{"set": set_name, "build": name, **figures} for (set_name, name), figures in builds.items()]


def read(file):
    try:
        return json.loads(file.read_text())
    except FileNotFoundError:
        return None


def write(file, value):
    """Whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(file.name + ".new")
    partial.write_text(json.dumps(value, indent=1) + "\n")
    partial.rename(file)


def remove(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def slug(name):
    return name.lower().replace(" ", "-").replace(",", "")


def comma(values):
    return ",".join(map(str, values))


def say(text):
    """One line that the next replaces, on a terminal; a line each elsewhere."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
