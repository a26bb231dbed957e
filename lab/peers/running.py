"""What takes turns: a process that answers cues, the points it is asked for, and our tables among them."""

import hashlib
import json
import os
import subprocess

import table
import vectors
from files import comma, read, remove, say, slug, write
from ours import OURS
from peers.base import grid


def begins(name, beginnings):
    return beginnings is None or any(slug(name).startswith(slug(beginning)) for beginning in beginnings)


def build_file(folder, data, build_name, threads):
    return folder / "builds" / f"{data.name}-{data.metric}" / f"{slug(build_name)}.{threads}.json"


def rounds(options, title, contenders):
    """Sweeps of all contenders in turn. The first time tells each which points lie around the recalls."""
    for contender in contenders:
        say(f"{title}: {contender.name}, looking for the recalls")
        contender.look()
    sweeps = []
    for number in range(options.rounds):
        for contender in contenders:
            say(f"{title}: {contender.name}, round {number + 1} of {options.rounds}")
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
                self.running.append(Contender(variant.name, self.process(variant), grid(variant.family, self.data.k)))
        return self.running

    def process(self, variant):
        """The command, which loads the table, or builds and keeps it."""
        file = self.index(variant)
        command = [*self.command(variant, grid(variant.family, self.data.k)), "--threads", comma(self.options.threads)]
        return Process(variant.name, [*command, "--cue", "--file", file], self.log(variant), variant.environment)

    def index(self, variant):
        """The table's file: one for all variants that build alike with this command."""
        options = iter(variant.options)
        alike = []
        for word in options:
            if word in ("--pages", "--together"):
                next(options)
            elif word != "--index":
                alike.append(word)
        folder = self.options.folder / "indexes" / f"{self.data.name}-{self.data.metric}"
        folder.mkdir(parents=True, exist_ok=True)
        digest = self.settings["chiplet"][:12]
        for old in folder.glob("chiplet-*"):
            if digest not in old.name:
                remove(old)
        return folder / f"chiplet-{slug(' '.join(alike)).replace('--', '')}-{digest}"

    def build_times(self, variant):
        """Builds on each number of threads, the fewest for keeps; a number that the table refuses leaves no time."""
        for threads in sorted(self.options.threads, reverse=True):
            file = build_file(self.options.folder, self.data, variant.name, threads)
            known = read(file)
            version = self.settings["chiplet"]
            keep = threads == min(self.options.threads)
            if known and known["version"] == version and (not keep or self.index(variant).exists()):
                continue
            say(f"{self.data.title}: {variant.name}, building on {threads} thread{'s' * (threads > 1)}")
            found = file.with_suffix(".partial")
            found.parent.mkdir(parents=True, exist_ok=True)
            command = [*self.command(variant, [self.data.k]), "--rounds", 1, "--json", found]
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
        count, dim = self.data.rows.shape
        sizes = {"NLIST": str(int(4 * count**0.5)), "HALF": str(dim // 2)}

        def sized(option):
            for name, size in sizes.items():
                option = option.replace(name, size)
            return option

        return [
            self.options.chiplet, "bench", "--direct", "--data", self.data.file, "--metric", self.data.metric,
            "--queries", vectors.QUERIES, "--k", self.data.k, sweep, comma(params),
            "--duration", self.options.seconds, *(sized(option) for option in variant.options),
        ]  # fmt: skip

    def log(self, variant):
        return self.options.folder / "log" / f"{slug(variant.name)}.log"


class Ended(Exception):
    """A process that should have answered and ended instead."""

    def __init__(self, name, status, log, said):
        self.name = name
        self.reason = f"status {status}, {said[-1] if said else 'nothing said'} ({log})"
        super().__init__("\n".join([f"{name} ended without an answer (status {status}); {log} ends with:", *said]))


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
        try:
            self.child.stdin.write(cue + "\n")
            self.child.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended: answer() says how
        return self.answer()

    def answer(self):
        line = self.child.stdout.readline()
        if not line:
            said = self.log.read_text(errors="replace").strip().splitlines()[-5:]
            raise Ended(self.name, self.child.wait(), self.log, said)
        return json.loads(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.terminate()
        self.child.communicate()
