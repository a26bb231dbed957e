#!/usr/bin/env python3
"""Compares the search of chiplet's tables with the libraries that users would pick instead.

`make peers` installs those from PyPI into target/peers and runs this. Everything gets the same vectors, the same
held-out queries and the same exact neighbours, and is asked for as many; M = 16, ef_construction = 200. What is
measured is a case: a data set, a metric and k.

A library is measured through its batch call on one thread and on two, as a Python call for each query would cost it
more than the search. Ours are measured by `chiplet bench --direct`, query by query. After each round of a library
follows a round of each of ours, so that whatever else the machine does falls on both; ratios are within a round. One
process works at a time. A library that does not run on this machine is left out, and the reason said.

What is measured is kept under target/peers: indexes/ and builds/ for each data set and metric, results/ for each case
and library. A second run continues where the first was stopped, and measures again only what has changed: the library's
version, the rounds, our variants (ours.py) or the chiplet command.
"""

import argparse
import signal
import sys
from pathlib import Path

import picture
import table
import vectors
from files import comma, read, remove, say, slug, write
from ours import PARTS
from peers import PEERS
from peers.base import grid
from running import Contender, Ended, Ours, Process, begins, build_file, rounds

HERE = Path(__file__).resolve().parent
WORKER = HERE / "worker.py"

EXAMPLES = """\
examples:
  make peers QUICK=1                       a few minutes: one small data set, one round
  make peers                               everything; hours the first time, as all indexes are built
  make peers ARGS="--only minilm-384"      one data set, by its metrics, k = 10 and 100
  make peers ARGS="--only wink-100 --metric ip --k 10 --peer symphonyqg,scann"
  make peers ARGS="--only glove-30k --peer hnswlib,glass --rounds 9"
  make peers ARGS="--no-ours"              the libraries alone
  make peers ARGS='--only glove-400k --ours "chiplet HNSW f32,chiplet HNSW SQ8 re-ranked"'
  make peers ARGS="--tables-only"          the tables again, from what was measured

The tables go to standard output and to target/peers/tables.md, all figures to target/peers/results.json.
To measure a library again remove its file under target/peers/results, or give --redo."""


def main():
    options = arguments()
    # Whoever ends this program, as `timeout` does, ends the library that it runs as well.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = options.folder
    peers, left_out = present([peer for peer in PEERS if begins(peer.name, options.peer)], options)
    units, builds = [], {}
    try:
        for name, metric, k in cases(options):
            data = vectors.load(folder / "data", name, metric, k)
            for unit, built in measure_case(options, folder, data, peers, left_out):
                units.append(unit)
                builds.update(built)
                write(folder / "results.json", {"units": units, "builds": listed(builds), "left_out": left_out})
    except KeyboardInterrupt:
        print("\nstopped; what was measured is kept, and the next run goes on from there", file=sys.stderr)
        sys.exit(130)
    except Ended as ended:
        sys.exit(f"\n{ended}")
    text = table.markdown(units, builds, options.threads, left_out)
    (folder / "tables.md").write_text(text)
    print(text)
    if options.pictures:
        for file in picture.draw(units, options.pictures):
            print(file)


def arguments():
    parser = argparse.ArgumentParser(
        prog="make peers",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )

    def names(text):
        return text.split(",")

    def numbers(text):
        return [int(number) for number in names(text)]

    parser.add_argument("--only", type=names, metavar="A,B",
                        help=f"data sets; all without it: {', '.join(vectors.SETS)}")
    parser.add_argument("--metric", type=names, metavar="A,B",
                        help=f"some of {', '.join(vectors.METRICS)}; without it those that sets.py has for the set")
    parser.add_argument("--k", type=numbers, metavar="10,100",
                        help="neighbours asked for; without it what sets.py has for the set")
    parser.add_argument("--peer", type=names, metavar="A,B", help="libraries whose names begin so; all without it")
    parser.add_argument("--ours", type=names, metavar="A,B", help="our variants whose names begin so; all without it")
    parser.add_argument("--family", choices=["hnsw", "ivf", "all"], default="hnsw", help="which indexes (%(default)s)")
    parser.add_argument("--rounds", type=int, help="of each library (3, quick 1)")
    parser.add_argument("--seconds", type=float, help="at least, of each point of a round (0.25, quick 0.1)")
    parser.add_argument("--threads", type=numbers, default=[1, 2], metavar="1,2",
                        help="searching threads, and building threads for the build time")
    parser.add_argument("--single", action="store_true", help="measure one query a call of the libraries as well")
    parser.add_argument("--parts", action="store_true", help="measure what each part of ours brings as well")
    parser.add_argument("--no-ours", action="store_true", help="the libraries alone")
    parser.add_argument("--quick", action="store_true", help="glove-30k, k = 10, one round, short")
    parser.add_argument("--redo", action="store_true", help="measure again what was measured; built indexes are kept")
    parser.add_argument("--tables-only", action="store_true", help="measure nothing")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER",
                        help="draw recall against q/s and against KB a query, an SVG file a case")
    parser.add_argument("--cpu-time", action="store_true",
                        help="count processor time in the tables, where others use the machine; not for publishing")
    parser.add_argument("--chiplet", type=Path, default=vectors.REPOSITORY / "target/release/chiplet",
                        help="the command (%(default)s)")
    parser.add_argument("--folder", type=Path, default=vectors.REPOSITORY / "target/peers", help="(%(default)s)")
    options = parser.parse_args()
    usual = (["glove-30k"], 1, 0.1) if options.quick else (list(vectors.SETS), 3, 0.25)
    options.only, options.rounds, options.seconds = (
        chosen if chosen is not None else default
        for chosen, default in zip((options.only, options.rounds, options.seconds), usual)
    )
    for what, given, known in (("data set", options.only, vectors.SETS), ("metric", options.metric, vectors.METRICS)):
        for name in given or ():
            if name not in known:
                parser.error(f"{name!r} is no {what}: give some of {', '.join(known)}")
    if options.rounds < 1 or options.seconds <= 0 or min(options.threads) < 1 or min(options.k or [1]) < 1:
        parser.error("--rounds, --seconds, --threads and --k must be above 0")
    table.CPU_TIME = options.cpu_time
    if not options.no_ours and not options.tables_only and not options.chiplet.exists():
        build = "cargo build --release -p chiplet-cli --features faiss"
        parser.error(f"{options.chiplet} is not there: {build}, or give --no-ours")
    return options


def cases(options):
    """(data set, metric, k) of everything that is measured."""
    for name in options.only:
        for metric in options.metric or vectors.SETS[name].metrics:
            for k in options.k or vectors.SETS[name].ks:
                yield name, metric, k


def present(peers, options):
    """The peers that are installed, and {name: reason} of the others."""
    families = ("hnsw", "ivf") if options.family == "all" else (options.family,)
    peers = [peer for peer in peers if peer.family in families]
    left_out = {}
    for peer in [] if options.tables_only else peers:
        if reason := peer.missing():
            leave_out(left_out, peer.name, reason)
    return [peer for peer in peers if peer.name not in left_out], left_out


def leave_out(left_out, name, reason):
    left_out[name] = reason
    print(f"\nleft out: {name}: {reason}", file=sys.stderr)


def measure_case(options, folder, data, peers, left_out):
    """Yields what is known of each library in one case, measuring what is not known yet."""
    for family in ("hnsw", "ivf") if options.family == "all" else (options.family,):
        with Ours(options, data, family) as ours:
            for peer in (peer for peer in peers if peer.family == family and data.metric in peer.metrics):
                try:
                    unit = measure_peer(options, folder, data, peer, ours)
                except Ended as ended:
                    # Without ours there is nothing to compare with; without a library there are the others.
                    if ended.name != peer.name:
                        raise
                    leave_out(left_out, f"{peer.name} ({data.title})", ended.reason)
                    continue
                if unit:
                    yield unit, read_builds(folder, data, peer, ours)
            for variant in PARTS if ours.variants and options.parts else ():
                if variant.family == family and (unit := measure_part(options, folder, data, variant, ours)):
                    yield unit, read_builds(folder, data, None, ours)


def measure_peer(options, folder, data, peer, ours):
    file = folder / "results" / slug(data.title) / f"{slug(peer.name)}.json"
    if options.tables_only:
        return read(file)
    settings = {"version": peer.version, "setting": peer.setting, "single": options.single, **ours.settings}
    if known := usable(options, file, settings):
        return known
    index = build_peer(options, folder, data, peer)
    command = worker("search", folder, data, peer, index, options.seconds, comma(options.threads))
    with Process(peer.name, command, folder / "log" / f"{slug(peer.name)}.log") as process:
        contender = Contender(peer.name, process, peer.grid(data.k), " recall", " single" * options.single)
        sweeps = rounds(options, data.title, [contender, *ours.contenders()])
    unit = described(data, peer.name, peer.family, settings, sweeps)
    unit |= {"library": peer.package, "build": peer.build_name}
    write(file, unit)
    return unit


def measure_part(options, folder, data, variant, ours):
    """One of PARTS in turn with the first of OURS, which the unit is named after."""
    file = folder / "results" / slug(data.title) / f"part-{slug(variant.name)}.json"
    if options.tables_only:
        return read(file)
    settings = {"part": vars(variant), **ours.settings}
    if known := usable(options, file, settings):
        return known
    base = ours.contenders()[0]
    say(f"{data.title}: {variant.name}")
    with ours.process(variant) as process:
        sweeps = rounds(options, data.title, [base, Contender(variant.name, process, grid(variant.family, data.k))])
    unit = described(data, base.name, variant.family, settings, sweeps) | {"part": variant.name}
    write(file, unit)
    return unit


def described(data, name, family, settings, sweeps):
    """What is kept of a measurement; `name` is whose sweeps the others are compared with."""
    return {
        "case": data.title,
        "set": data.name,
        "metric": data.metric,
        "k": data.k,
        "rows": len(data.rows),
        "dim": data.rows.shape[1],
        "name": name,
        "family": family,
        "settings": settings,
        "sweeps": sweeps,
    }


def build_peer(options, folder, data, peer):
    """The file of the built index; built for its time once on each number of threads, on one thread for keeps."""
    index = folder / "indexes" / f"{data.name}-{data.metric}" / slug(peer.build_name)
    index.parent.mkdir(parents=True, exist_ok=True)
    for threads in sorted(options.threads, reverse=True):
        file = build_file(folder, data, peer.build_name, threads)
        known = read(file)
        path = index if threads == min(options.threads) else index.with_name(index.name + ".timed")
        if known and known["version"] == peer.version and (path != index or index.exists()):
            continue
        say(f"{data.title}: {peer.build_name}, building on {threads} thread{'s' * (threads > 1)}")
        command = worker("build", folder, data, peer, path, threads)
        with Process(peer.name, command, folder / "log" / f"{slug(peer.name)}.log") as process:
            write(file, {"version": peer.version, **process.answer()})
        if path != index:
            remove(path)
    return index


def worker(mode, folder, data, peer, index, *rest):
    asked = (folder / "data", data.name, data.metric, data.k)
    return [sys.executable, WORKER, mode, *asked, peer.name, index, *rest]


def read_builds(folder, data, peer, ours):
    """Build figures of a library and of ours: {(set, metric, build name): {"build_s": {threads: seconds}, ..}}."""
    found = {}
    for name in ([peer.build_name] if peer else []) + ours.names:
        for threads in ours.options.threads:
            known = read(build_file(folder, data, name, threads))
            if known:
                built = found.setdefault((data.name, data.metric, name), {"build_s": {}, "build_cpu_s": {}})
                for key in ("build_s", "build_cpu_s"):
                    if key in known:
                        built[key][str(threads)] = known[key]
                # A glass file has links only: its rows are quantised when it is loaded.
                if "stored_bytes_per_vector" in known and not (peer and name.startswith("glass")):
                    built["stored_bytes_per_vector"] = known["stored_bytes_per_vector"]
    return found


def usable(options, file, settings):
    """What `file` holds, if it was measured with these settings."""
    known = read(file)
    return known if known and not options.redo and known["settings"] == settings else None


def listed(builds):
    keys = ("set", "metric", "build")
    return [dict(zip(keys, key)) | figures for key, figures in builds.items()]


if __name__ == "__main__":
    main()
