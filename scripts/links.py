#!/usr/bin/env python3
"""Finds relative links in built documentation that lead nowhere: to no file, or to no such place in one.

Usage: scripts/links.py FOLDER..     for instance target/doc/chiplet

Links to pages in `src` are checked for the file alone, as a script in the page makes its line numbers.
"""

import functools
import html.parser
import pathlib
import sys
import urllib.parse


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.forwards = set(), [], None
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        # Rustdoc keeps a page that forwards, with the place, where an item is named by two paths.
        if tag == "meta" and ("http-equiv", "refresh") in attributes:
            self.forwards = dict(attributes)["content"].partition("URL=")[2]
        for name, value in attributes:
            if name == "id":
                self.ids.add(value)
            elif name in ("href", "src") and value is not None:
                self.links.append(value)


# Not ours to mend: rustdoc's list of who implements a trait, where the trait is named by another path than its own, and
# text of `tracing` and of `opentelemetry` that rustdoc repeats on every type.
FOREIGN = ("/trait.impl/", "dispatcher#setting-the-default-subscriber")
FOREIGN_NAMES = ("Context",)

read = functools.lru_cache(maxsize=256)(Page)


def dead(page, link, sources):
    """Why the link leads nowhere, or nothing."""
    url = urllib.parse.urlsplit(link)
    if url.scheme or url.netloc or link in FOREIGN_NAMES or any(text in link for text in FOREIGN):
        return None
    to = (page.parent / urllib.parse.unquote(url.path)).resolve() if url.path else page
    if not to.is_file():
        return "no such file"
    if not url.fragment or to.suffix != ".html" or any(to.is_relative_to(folder) for folder in sources):
        return None
    while forwards := read(to).forwards:
        to = (to.parent / forwards).resolve()
        if not to.is_file():
            return "forwarded to no file"
    # Rustdoc's names of places are quoted as they stand, headings' are not.
    if read(to).ids.isdisjoint((url.fragment, urllib.parse.unquote(url.fragment))):
        return "no such place"
    return None


def main(folders):
    sources = {pathlib.Path(folder).resolve().parent / "src" for folder in folders}
    pages = [page.resolve() for folder in folders for page in sorted(pathlib.Path(folder).rglob("*.html"))]
    if not pages:
        sys.exit(f"links: no page in {' '.join(folders) or 'no folder'}")
    count, found = 0, 0
    for page in pages:
        for link in read(page).links:
            count += 1
            if reason := dead(page, link, sources):
                found += 1
                print(f"{page}: {link}: {reason}")
    print(f"links: {len(pages)} pages, {count} links, {found} dead")
    sys.exit(bool(found))


main(sys.argv[1:])
