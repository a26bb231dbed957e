#!/usr/bin/env python3
"""The house: the crates by part, their lines of Rust, and who uses whom.

  scripts/house.py            a line for each crate: code, tests, and the crates that it uses
  scripts/house.py --check    the same; exit status 1 if an arrow is against the rules

Lines are without blanks and comments. "(dev)" marks an arrow of tests, examples and benchmarks alone. The rules: the
library uses nothing of apps and lab, its tests neither. A program in apps uses one crate of lab at most.
"""

import argparse
import sys
import tomllib
from pathlib import Path

sys.dont_write_bytecode = True
from circles import Crate, bare  # noqa: E402

TOP = Path(__file__).resolve().parent.parent
PARTS = {"library": "crates", "apps": "apps", "lab": "lab", "examples": "examples", "bindings": "bindings"}


def count(text):
    return sum(1 for line in text.splitlines() if line.strip())


def sources(folder):
    """The Rust files of a crate, without those of crates inside its folder."""
    inside = {path.parent for path in folder.glob("*/*/Cargo.toml")} if folder == TOP else set()
    for top in ("src", "plugin", "tests", "checks", "benches", "examples", "build.rs"):
        for path in [folder / top] if top.endswith(".rs") else sorted((folder / top).rglob("*.rs")):
            if path.is_file() and inside.isdisjoint(path.parents):
                yield path


class House:
    def __init__(self):
        self.part, self.folder, self.uses = {}, {}, {}
        folders = {TOP: "library"}
        for part, name in PARTS.items():
            folders |= {path.parent: part for path in sorted((TOP / name).glob("*/Cargo.toml"))}
        manifests = {folder: tomllib.loads((folder / "Cargo.toml").read_text()) for folder in folders}
        names = {manifest["package"]["name"]: folder for folder, manifest in manifests.items()}
        for folder, manifest in manifests.items():
            crate = self.name(folder)
            self.part[crate], self.folder[crate] = folders[folder], folder
            arrows = self.uses[crate] = {}  # to whom, and whether only in tests
            for table in [manifest, *manifest.get("target", {}).values()]:
                for kind in ("dependencies", "build-dependencies", "dev-dependencies"):
                    for key, given in table.get(kind, {}).items():
                        package = given.get("package", key) if isinstance(given, dict) else key
                        if package in names:
                            to, dev = self.name(names[package]), kind.startswith("dev")
                            arrows[to] = arrows.get(to, True) and dev

    @staticmethod
    def name(folder):
        return "chiplet" if folder == TOP else folder.name

    def lines(self, crate):
        """Lines of code, and of tests."""
        folder = self.folder[crate]
        programs = [folder / "plugin/main.rs", *(folder / "src/bin").glob("*.rs"), *folder.glob("src/bin/*/main.rs")]
        roots = [folder / "src/lib.rs", folder / "src/main.rs", *programs]
        if not any(root.exists() for root in roots[:2]):
            return 0, 0
        code = {}
        for root in filter(Path.exists, roots):
            read = Crate(root)
            code |= {read.files[module]: count(read.text[module]) for module in read.files}
        every = sum(count(bare(path.read_text())) for path in {*sources(folder), *code})
        return sum(code.values()), every - sum(code.values())

    def against(self):
        """Arrows against the rules, as sentences."""
        for crate, uses in self.uses.items():
            part = self.part[crate]
            lab = sorted(to for to, dev in uses.items() if self.part[to] == "lab" and not dev)
            if part == "library":
                for to in sorted(to for to in uses if self.part[to] in ("apps", "lab")):
                    yield f"{crate} -> {to}{' (dev)' * uses[to]}: the library uses nothing of {self.part[to]}"
            if part == "apps" and len(lab) > 1:
                yield f"{crate} -> {', '.join(lab)}: a program uses one crate of lab at most, but for its tests"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit status 1 if an arrow is against the rules")
    chosen = parser.parse_args()
    house = House()
    sums = [0, 0]
    for part in PARTS:
        crates = [crate for crate in house.part if house.part[crate] == part]
        counts = {crate: house.lines(crate) for crate in crates}
        code, tests = (sum(pair[at] for pair in counts.values()) for at in (0, 1))
        sums = [sums[0] + code, sums[1] + tests]
        print(f"{part:<16}{code:>8} code{tests:>8} tests")
        for crate, (code, tests) in counts.items():
            uses = sorted(house.uses[crate].items(), key=lambda arrow: (arrow[1], arrow[0]))
            arrows = ", ".join(to + " (dev)" * dev for to, dev in uses)
            print(f"  {crate:<14}{code:>8}{tests:>13}       {'-> ' + arrows if arrows else ''}".rstrip())
    print(f"{'all':<16}{sums[0]:>8} code{sums[1]:>8} tests")
    against = list(house.against())
    print("\nagainst the rules:" if against else "\nno arrow is against the rules")
    for sentence in against:
        print(f"  {sentence}")
    sys.exit(chosen.check and bool(against))


if __name__ == "__main__":
    main()
