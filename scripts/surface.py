#!/usr/bin/env python3
"""Lists what a user of the library can name: a line for each type or trait with its public fields, variants and methods,
and for each function.

Usage: scripts/surface.py [--features A,B] > surface.txt

It starts at the facade, follows re-exports into the library's other crates, and leaves out what is hidden from the
documentation. It reads rustdoc's JSON, which stable rustdoc writes with RUSTC_BOOTSTRAP=1 (format 50 and later).
"""

import argparse
import collections
import json
import os
import subprocess
import sys

FACADE = "chiplet"

# What is named through something else.
MEMBERS = ("field", "variant", "method", "trait item")


def documented(crate, features):
    """Rustdoc's JSON of a crate of this workspace."""
    command = ["cargo", "rustdoc", "--quiet", "-p", crate.replace("_", "-"), "--lib"]
    if crate == FACADE:
        command += ["--features", features] if features else ["--no-default-features"]
    command += ["--", "-Zunstable-options", "--output-format", "json", "--cap-lints", "allow"]
    subprocess.run(command, check=True, env={**os.environ, "RUSTC_BOOTSTRAP": "1"})
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    with open(os.path.join(target, "doc", crate + ".json")) as file:
        return json.load(file)


class Surface:
    def __init__(self, features):
        self.features, self.crates, self.lines, self.seen = features, {}, [], set()

    def crate(self, name):
        if name not in self.crates:
            self.crates[name] = documented(name, self.features)
        return self.crates[name]

    def add(self, kind, path):
        self.lines.append((kind, path))

    def module(self, crate, item, path):
        """Everything public in a module, its re-exports included."""
        index = self.crate(crate)["index"]
        for child in item["inner"]["module"]["items"]:
            child = index.get(str(child))
            if child is None or child["visibility"] != "public":
                continue
            if "use" in child["inner"]:
                self.reexport(crate, child["inner"]["use"], path)
            else:
                self.item(crate, child, f"{path}::{child['name']}")

    def reexport(self, crate, use, path):
        source = use["source"].split("::")
        if source[0] in ("crate", "self", "super") or not source[0].startswith(FACADE):
            item = self.crate(crate)["index"].get(str(use["id"]))
            found = (crate, item) if item else None
        else:
            found = self.resolve(source[0], source[1:])
        if found is None:
            # Of a crate that is not ours.
            self.add("use", f"{path}::{use['name']} = {use['source']}")
        elif use["is_glob"]:
            self.module(*found, path)
        else:
            self.item(*found, f"{path}::{use['name']}")

    def resolve(self, crate, names):
        """The item that a path in a crate of ours names."""
        documentation = self.crate(crate)
        item = documentation["index"][str(documentation["root"])]
        for name in names:
            crate, item = self.child(crate, item, name)
        return crate, item

    def child(self, crate, module, name):
        index = self.crate(crate)["index"]
        for child in module["inner"]["module"]["items"]:
            child = index.get(str(child))
            use = child and child["inner"].get("use")
            if use and use["name"] == name:
                source = use["source"].split("::")
                if source[0].startswith(FACADE):
                    return self.resolve(source[0], source[1:])
                target = index.get(str(use["id"]))
                if target:
                    return crate, target
            if child and child["name"] == name:
                return crate, child
        sys.exit(f"no {name} in {crate}")

    def item(self, crate, item, path):
        """An item and what can be named through it."""
        if (crate, item["id"]) in self.seen:
            return
        self.seen.add((crate, item["id"]))
        (kind, inner), = item["inner"].items()
        if kind == "module":
            return self.module(crate, item, path)
        self.add(kind, path)
        index = self.crate(crate)["index"]
        children = lambda ids: [index[str(child)] for child in ids if str(child) in index]
        if kind == "struct":
            fields = inner["kind"].get("plain", {}).get("fields", []) if isinstance(inner["kind"], dict) else []
            for field in children(fields):
                if field["visibility"] == "public":
                    self.add("field", f"{path}.{field['name']}")
        if kind == "enum":
            for variant in children(inner["variants"]):
                self.add("variant", f"{path}::{variant['name']}")
        if kind == "trait":
            for method in children(inner["items"]):
                self.add("trait item", f"{path}::{method['name']}")
        for block in children(inner.get("impls", []) if isinstance(inner, dict) else []):
            block = block["inner"]["impl"]
            if block["trait"] is None:
                for member in children(block["items"]):
                    if member["visibility"] == "public":
                        self.add("method", f"{path}::{member['name']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", default="", help="features of the facade, none unless given")
    surface = Surface(parser.parse_args().features)
    root = surface.crate(FACADE)
    surface.module(FACADE, root["index"][str(root["root"])], FACADE)
    members = collections.defaultdict(list)
    for kind, path in sorted(set(surface.lines), key=lambda line: line[1]):
        if kind in MEMBERS:
            parent, name = path.replace(".", "::.").rsplit("::", 1)
            members[parent].append(name)
        else:
            members[f"{kind} {path}"] = members.pop(path, [])
            members[path] = members[f"{kind} {path}"]
    for path, names in members.items():
        if " " in path:
            print(path + (": " if names else "") + " ".join(names))
    counts = collections.Counter(kind for kind, _ in set(surface.lines))
    print(f"{sum(counts.values())} names: " + ", ".join(f"{n} {kind}" for kind, n in counts.most_common()), file=sys.stderr)


if __name__ == "__main__":
    main()
