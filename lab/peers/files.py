"""Files of JSON that are there whole or not at all, names for them, and lines on the terminal."""

import json
import shutil
import sys


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
    """A file or a folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def slug(name):
    return name.lower().replace(" = ", "-").replace(" ", "-").replace(",", "")


def comma(values):
    return ",".join(map(str, values))


def say(text):
    """One line that the next replaces, on a terminal; a line each elsewhere."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)
