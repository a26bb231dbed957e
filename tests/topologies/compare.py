#!/usr/bin/env python3
"""Holds `chiplet topology` against `lstopo` on saved machines.

    compare.py [--chiplet BIN] [-v] PATH...

A PATH is an hwloc XML file, the root of a saved /sys and /proc tree, a .tar.bz2 of one, or a folder
that is searched for all three. For each machine and each of the levels auto, l3 and l2, the domains of
`chiplet topology --json` are compared with the objects that lstopo prints for the same input: sets of
cpus, cache sizes, NUMA nodes, packages, the cpus of each core, and the cpus allowed in all. A tree is
also exported by lstopo to XML with everything disallowed kept, and read back by chiplet, which must
give what it read from the tree itself.

Exit status 0 if all agree, 1 if not. Needs lstopo (Debian: hwloc-nox) and nothing else.
"""

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ElementTree

SECONDS = 120  # no machine takes one; a hang must not stop the run
CACHE = {"L3": "L3Cache", "L2": "L2Cache"}


class Failed(Exception):
    """A program refused the input; what it said."""


def run(command):
    done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip() or f"exit status {done.returncode}"
        raise Failed(f"{os.path.basename(command[0])}: {said}")
    return done.stdout.decode(errors="replace")


def bits(text):
    """The members of an hwloc bitmap such as 0x00000001,,0xff000000."""
    members = set()
    for index, word in enumerate(reversed((text or "0x0").split(","))):
        value = int(word, 16) if word else 0
        members |= {32 * index + bit for bit in range(32) if value >> bit & 1}
    return frozenset(members)


class Machine:
    """What lstopo sees: the objects of its XML, each with its ancestors."""

    def __init__(self, text):
        self.objects = []  # (element, ancestors from the root down)
        root = ElementTree.fromstring(text)
        for child in root.findall("object"):
            self.walk(child, ())

    def walk(self, element, ancestors):
        self.objects.append((element, ancestors))
        for child in element.findall("object"):
            self.walk(child, ancestors + (element,))

    def of_type(self, *types):
        return [(e, a) for e, a in self.objects if e.get("type") in types]

    def cpus(self):
        return frozenset(int(pu.get("os_index")) for pu, _ in self.of_type("PU"))

    def expected(self, level):
        """The domains at a level, by their cpus: (cache bytes, node, package, cores)."""
        groups = {}
        for pu, ancestors in self.of_type("PU"):
            key = self.group(ancestors, level)
            groups.setdefault(id(key) if key is not None else None, (key, []))[1].append((pu, ancestors))
        result = {}
        for key, members in groups.values():
            size = int(key.get("cache_size", 0)) if key is not None and "Cache" in key.get("type") else 0
            cores = {}
            for pu, ancestors in members:
                core = next((a for a in reversed(ancestors) if a.get("type") == "Core"), pu)
                cores.setdefault(id(core), set()).add(int(pu.get("os_index")))
            _, ancestors = members[0]
            cpus = frozenset(cpu for core in cores.values() for cpu in core)
            result[cpus] = (size, self.node(ancestors), self.package(ancestors),
                            frozenset(frozenset(core) for core in cores.values()))
        return result

    def group(self, ancestors, level):
        """The object that makes a PU's domain; cores outside the level go by their other cache."""
        def nearest(kind):
            return next((a for a in reversed(ancestors) if a.get("type") == kind), None)
        if level == "Package":
            return nearest("Package")
        if level == "Machine":
            return None
        order = {"L3": ("L3Cache", "L2Cache"), "L2": ("L2Cache", "L3Cache")}.get(level, ())
        found = next((g for g in map(nearest, order) if g is not None), None)
        return found if found is not None else self.memory_parent(ancestors)

    def memory_parent(self, ancestors):
        return next((a for a in reversed(ancestors) if self.memory(a)), None)

    def memory(self, element):
        """The NUMA nodes attached to an object, through memory-side caches."""
        nodes = []
        for child in element.findall("object"):
            if child.get("type") == "NUMANode":
                nodes.append(child)
            elif child.get("type") == "MemCache":
                nodes += self.memory(child)
        return nodes

    def node(self, ancestors):
        parent = self.memory_parent(ancestors)
        nodes = self.memory(parent) if parent is not None else []
        nodes.sort(key=lambda n: (n.get("subtype") not in (None, "DRAM"), int(n.get("os_index"))))
        return int(nodes[0].get("os_index")) if nodes else 0

    @staticmethod
    def package(ancestors):
        package = next((a for a in reversed(ancestors) if a.get("type") == "Package"), None)
        index = package.get("os_index") if package is not None else None
        return int(index) if index not in (None, "-1", "4294967295") else 0


def found(text):
    """chiplet's answer, in the form of Machine.expected."""
    answer = json.loads(text)
    domains = {}
    for index, domain in enumerate(answer["domains"]):
        assert domain["id"] == index, "ids have gaps"
        cores = frozenset(frozenset(core) for core in domain["cores"])
        cpus = frozenset(cpu for core in cores for cpu in core)
        domains[cpus] = (domain["cache_bytes"], domain["node"], domain["package"], cores)
    return answer, domains


def differences(expected, ours):
    """What differs, in words."""
    words = []
    if expected.keys() != ours.keys():
        only = sorted(sorted(s) for s in expected.keys() - ours.keys())
        extra = sorted(sorted(s) for s in ours.keys() - expected.keys())
        words.append(f"domains: lstopo alone has {only[:3]}, chiplet alone has {extra[:3]}")
    for cpus in sorted(expected.keys() & ours.keys(), key=sorted):
        for name, theirs, mine in zip(("cache_bytes", "node", "package", "cores"), expected[cpus], ours[cpus]):
            if theirs != mine:
                words.append(f"{name} of the domain of cpu {min(cpus)}: lstopo {theirs}, chiplet {mine}")
    return words


def guest(root):
    """Whether a saved machine was a virtual one, by its processor's flags."""
    try:
        with open(os.path.join(root, "proc/cpuinfo"), errors="replace") as file:
            return any("hypervisor" in line.split() for line in file if line.startswith("flags"))
    except OSError:
        return False


def check(chiplet, kind, path, scratch):
    """The differences on one machine: a list of words for each, and the level that auto chose."""
    source = ["--if", "xml" if kind == "xml" else "fsroot", "-i", path]
    machine = Machine(run(["lstopo", "--no-io", *source, "--of", "xml", "-"]))
    option = "--xml" if kind == "xml" else "--sysfs"
    # A guest's made-up L3s are not believed, and its XML does not say that it is a guest.
    is_guest = ["--virtual-machine", "yes" if kind == "tree" and guest(path) else "no"]
    words, chosen = [], None
    for level in ("auto", "l3", "l2"):
        if level != "auto" and not machine.of_type(CACHE[level.upper()]):
            continue
        answer, ours = found(run([chiplet, "topology", option, path, "--json", "--level", level, *is_guest]))
        if level == "auto":
            chosen = f"{answer['level']} x {len(ours)}"
        cpus = frozenset(cpu for domain in ours for cpu in domain)
        if cpus != machine.cpus():
            words.append(f"allowed cpus: lstopo {sorted(machine.cpus())}, chiplet {sorted(cpus)}")
        words += [f"--level {level}: {w}" for w in differences(machine.expected(answer["level"]), ours)]
        if kind == "tree":
            whole = os.path.join(scratch, "whole.xml")
            run(["lstopo", "--no-io", "--disallowed", *source, "--of", "xml", "--force", whole])
            _, again = found(run([chiplet, "topology", "--xml", whole, "--json", "--level", level, *is_guest]))
            words += [f"--level {level}, tree against its own XML: {w}" for w in differences(again, ours)]
    return words, chosen


def machines(paths, scratch):
    """All saved machines below the paths: (kind, name, path)."""
    for path in paths:
        if os.path.isdir(os.path.join(path, "sys/devices/system/cpu")):
            yield "tree", path, path
        elif os.path.isdir(path):
            yield from machines([os.path.join(path, name) for name in sorted(os.listdir(path))], scratch)
        elif path.endswith(".tar.bz2"):
            place = tempfile.mkdtemp(dir=scratch)
            with tarfile.open(path) as archive:
                # Pythons of before 3.12 ask for no filter, some do not know the word.
                safe = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}
                archive.extractall(place, **safe)
            inside = [root for root, folders, _ in os.walk(place) if "sys" in folders and "proc" in folders]
            for root in inside[:1]:
                yield "tree", path, root
        elif path.endswith(".xml"):
            yield "xml", path, path


def main():
    parser = argparse.ArgumentParser(description="Hold chiplet topology against lstopo on saved machines.")
    parser.add_argument("--chiplet", default="chiplet", help="the chiplet command")
    parser.add_argument("-v", "--verbose", action="store_true", help="name the machines that agree too")
    parser.add_argument("paths", nargs="+", help="XML files, tree roots, .tar.bz2 of trees, or folders of them")
    arguments = parser.parse_args()
    agree = differ = skipped = 0
    with tempfile.TemporaryDirectory() as scratch:
        for kind, name, path in machines(arguments.paths, scratch):
            try:
                words, chosen = check(arguments.chiplet, kind, path, scratch)
            except Failed as problem:
                if str(problem).startswith("lstopo"):
                    skipped += 1
                    print(f"SKIP    {name}: lstopo cannot load it: {problem}")
                    continue
                words, chosen = [str(problem)], None
            except subprocess.TimeoutExpired as problem:
                words, chosen = [str(problem)], None
            if words:
                differ += 1
                print(f"DIFFER  {name}")
                for word in words:
                    print(f"        {word}")
            else:
                agree += 1
                if arguments.verbose:
                    print(f"agree   {name}: {chosen}")
    print(f"{agree} agree, {differ} differ, {skipped} skipped")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
