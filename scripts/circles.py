#!/usr/bin/env python3
"""Files that import each other in circles, crate by crate, and lines of code.

  scripts/circles.py            a line for each crate, and the files of each circle
  scripts/circles.py --arrows   also who imports what of whom, inside the circles
  scripts/circles.py CRATE ..   only these

Test code does not count, and neither does a module that only hands on what its parts define. A circle within one module
and its parts is how Rust modules are written; larger ones are marked with "!".
"""

import argparse
import re
import sys
from pathlib import Path

ITEM = re.compile(r"\b(?:struct|enum|trait|type|union|fn|const|static|mod|macro_rules!)\s+(\w+)")
USE = re.compile(r"\b(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);")
PART = re.compile(r"((?:#\[[^\]]*\]\s*)*)(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;")


def bare(source):
    """The source without comments and texts."""
    texts = r'r(#*)".*?"\1|"(?:\\.|[^"\\])*"|\'(?:\\[^\']*|[^\'\\])\''
    return re.sub(rf"//[^\n]*|/\*.*?\*/|{texts}", lambda m: "" if m[0][0] == "/" else '""', source, flags=re.S)


def plain(source):
    """The source without comments, texts and test code."""
    source = bare(source)
    while found := re.search(r"#\[cfg\((?:test|all\(test)[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*", source):
        end, depth = found.end(), 0
        while end < len(source):
            depth += {"{": 1, "}": -1}.get(source[end], 0)
            end += 1
            if depth == 0 and source[end - 1] in "};":
                break
        source = source[: found.start()] + source[end:]
    return source


def paths(tree, before=()):
    """Each path of a `use`, and the name that it goes by."""
    tree = tree.strip()
    if group := re.fullmatch(r"(.*?)(?:::)?\s*\{(.*)\}", tree, re.S):
        before += tuple(filter(None, re.split(r"\s*::\s*", group[1])))
        depth, start = 0, 0
        for at, char in enumerate(group[2] + ","):
            depth += {"{": 1, "}": -1}.get(char, 0)
            if char == "," and depth == 0:
                if part := group[2][start:at].strip():
                    yield from paths(part, before)
                start = at + 1
        return
    path, _, name = tree.partition(" as ")
    path = before + tuple(re.split(r"\s*::\s*", path.strip()))
    path = path[:-1] if path[-1] == "self" else path
    yield path, name.strip() or path[-1]


class Crate:
    def __init__(self, root):
        self.files, self.text, self.lines = {}, {}, 0
        self.read((), root, root.parent)
        self.defines = {module: set(ITEM.findall(text)) for module, text in self.text.items()}
        self.names = {
            module: {name: path for use in USE.finditer(text) for path, name in paths(use[2])}
            for module, text in self.text.items()
        }

    def read(self, module, file, folder):
        raw = file.read_text()
        self.files[module], self.text[module] = file, plain(raw)
        self.lines += sum(1 for line in self.text[module].splitlines() if line.strip())
        for part in PART.finditer(self.text[module]):
            name = part[2]
            given = re.search(rf'path\s*=\s*"([^"]+)"\)?\]\s*(?:pub\S*\s+)?mod\s+{name}\s*;', raw)
            tries = [file.parent / given[1]] if given else []
            for path in [*tries, folder / f"{name}.rs", folder / name / "mod.rs"]:
                if path.exists():
                    self.read((*module, name), path, folder / name)
                    break

    def home(self, module, path, seen=frozenset()):
        """The module that defines what `path` names in `module`; None if it is not of this crate."""
        first, *rest = path
        if first in ("crate", "self", "super"):
            module = () if first == "crate" else module[:-1] if first == "super" else module
        elif (*module, first) in self.files:
            module = (*module, first)
        elif (module, first) not in seen and first in self.names[module]:
            return self.home(module, (*self.names[module][first], *rest), seen | {(module, first)})
        else:
            return module if first in self.defines[module] or seen else None
        return self.home(module, rest, seen | {(module, "")}) if rest else module

    def arrows(self, module):
        text = self.text[module]
        body = USE.sub("", text)
        found = {}
        for use in USE.finditer(text):
            for path, name in paths(use[2]):
                if not use[1] or re.search(rf"\b{re.escape(name)}\b", body):
                    found.setdefault(path, name)
        for path in re.findall(r"\b(?:crate|super)(?:::\w+)+", body):
            found.setdefault(tuple(path.split("::")), path)
        for first, name in re.findall(r"(?<![\w:])(\w+)::(\w+)", body):
            if (*module, first) in self.files:
                found.setdefault((first, name), f"{first}::{name}")
        to = {}
        for path, name in found.items():
            path = path[:-1] if path[-1] == "*" else path
            home = self.home(module, path) if path else None
            if home is not None and home != module:
                to.setdefault(home, set()).add(name)
        return to


def circles(arrows):
    """Sets of modules that reach each other (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(module):
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in arrows[module]:
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            at = stack.index(module)
            found.append(stack[at:])
            del stack[at:]

    for module in arrows:
        if module not in index:
            visit(module)
    return sorted((circle for circle in found if len(circle) > 1), key=len, reverse=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("crates", nargs="*", metavar="CRATE")
    parser.add_argument("--arrows", action="store_true", help="who imports what of whom, inside the circles")
    chosen = parser.parse_args()
    sys.setrecursionlimit(10_000)
    top = Path(__file__).resolve().parent.parent
    print(f"{'crate':<24}{'files':>6}{'lines':>8}{'arrows':>8}{'in circles':>12}")
    for root in sorted(top.glob("*/*/src")):
        for start in ("lib.rs", "main.rs", *(path.relative_to(root) for path in root.glob("bin/*/main.rs"))):
            name = root.parent.name + ("" if start == "lib.rs" else " (command)")
            if not (root / start).exists() or (chosen.crates and root.parent.name not in chosen.crates):
                continue
            crate = Crate(root / start)
            arrows = {module: crate.arrows(module) for module in crate.files}
            found = circles(arrows)
            total = sum(map(len, arrows.values()))
            inside = sum(map(len, found))
            print(f"{name:<24}{len(crate.files):>6}{crate.lines:>8}{total:>8}{inside:>12}")
            for circle in found:
                shown = sorted(str(crate.files[module].relative_to(root)) for module in circle)
                module = min(circle, key=len)
                larger = any(other[: len(module)] != module for other in circle)
                print(f"  {'! ' if larger else ''}{len(circle)}: {', '.join(shown)}")
                for module in sorted(circle) if chosen.arrows else ():
                    for other, names in sorted(arrows[module].items()):
                        if other in circle:
                            one, two = (crate.files[at].relative_to(root) for at in (module, other))
                            print(f"      {one} -> {two}: {', '.join(sorted(names))}")


if __name__ == "__main__":
    main()
