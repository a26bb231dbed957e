"""Opens the admin page in a browser and checks what holds for it whatever it shows.

Nothing here knows which server answers: the checks serve the made-up states and a running server alike.
"""

import shutil
from contextlib import contextmanager

from playwright.sync_api import sync_playwright

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DESKTOP = {"width": 1400, "height": 900}
PHONE = {"width": 360, "height": 740}
CONTRAST = 4.5

# A policy violation inside the page is an event before it is a console message; both are collected.
NOTE_VIOLATIONS = """
  document.addEventListener('securitypolicyviolation', (event) =>
    console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));
"""


@contextmanager
def chromium():
    """The system's Chromium, headless."""
    path = shutil.which("chromium") or "/usr/bin/chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def opened(browser, url, viewport=DESKTOP, scheme="light", motion="reduce"):
    """The page at `url` once it shows an answer. `page.problems` collects what it complains about."""
    context = browser.new_context(viewport=viewport, color_scheme=scheme, reduced_motion=motion, locale="en-GB")
    context.add_init_script(NOTE_VIOLATIONS)
    page = context.new_page()
    page.problems = []
    page.on("console", lambda message: page.problems.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.goto(url)
    page.locator("main").wait_for(state="visible")
    yield page
    context.close()


def check_page(page):
    """All that must hold at any size, in either colour scheme, with any data."""
    found = {
        "console": page.problems,
        "sideways scroll": sideways_scroll(page),
        "misplaced": misplaced_texts(page),
        "overlapping": overlapping_texts(page),
        "faint": faint_texts(page),
    }
    wrong = {check: what for check, what in found.items() if what}
    assert not wrong, wrong


def sideways_scroll(page):
    """By how many pixels the page can be scrolled sideways."""
    return page.evaluate("() => { window.scrollTo(9999, 0); const x = window.scrollX; window.scrollTo(0, 0); return x; }")


# Every visible run of text: its element, its characters, its rectangle. What is inside a scrolling box is
# reachable, so boxes that scroll are where the search for clipping ends.
TEXTS = """
  function* texts(root = document.body) {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const element = node.parentElement;
      if (!node.textContent.trim() || element.closest('template, script, noscript, .unseen')) continue;
      if (!element.checkVisibility()) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      const rect = range.getBoundingClientRect();
      if (rect.width > 0) yield { element, text: node.textContent.trim(), rect };
    }
  }
"""


def misplaced_texts(page):
    """Texts that a box cuts off, or that stick out sideways of the box they belong to.

    A name may end in an ellipsis where its whole text is a tooltip away."""
    return page.evaluate(f"""() => {{ {TEXTS}
      const found = [];
      for (const {{ element, text, rect }} of texts()) {{
        for (let box = element; box && box !== document.documentElement; box = box.parentElement) {{
          const style = getComputedStyle(box);
          if (style.display === 'inline' || style.display === 'contents') continue;
          if (style.overflowX === 'auto' || style.overflowX === 'scroll') break;
          const outer = box.getBoundingClientRect();
          const shortened = style.textOverflow === 'ellipsis' && box.closest('[title]')?.title.includes(text);
          if (shortened) {{
            if (rect.top >= outer.top - 1 && rect.bottom <= outer.bottom + 1) break;
            found.push(`cut in height: ${{text.slice(0, 40)}}`);
            break;
          }}
          const sideways = rect.left < outer.left - 1 || rect.right > outer.right + 1;
          const cut = style.overflowY !== 'visible' && (rect.top < outer.top - 1.5 || rect.bottom > outer.bottom + 1.5);
          if (!sideways && !cut) continue;
          found.push(`${{sideways ? 'too wide' : 'cut'}} in ${{box.tagName}}.${{box.className}}: ${{text.slice(0, 40)}}`);
          break;
        }}
      }}
      return found;
    }}""")


def overlapping_texts(page):
    """Pairs of texts of the header or of one column that lie on each other."""
    return page.evaluate(f"""() => {{ {TEXTS}
      const found = [];
      for (const root of document.querySelectorAll('header, .tiles, .domain')) {{
        const all = [...texts(root)].filter(({{ element }}) => getComputedStyle(element).textOverflow !== 'ellipsis');
        all.forEach((one, at) => {{
          for (const other of all.slice(at + 1)) {{
            const width = Math.min(one.rect.right, other.rect.right) - Math.max(one.rect.left, other.rect.left);
            const height = Math.min(one.rect.bottom, other.rect.bottom) - Math.max(one.rect.top, other.rect.top);
            if (width > 1 && height > 3) found.push(`${{one.text.slice(0, 40)}} on ${{other.text.slice(0, 40)}}`);
          }}
        }});
      }}
      return found;
    }}""")


def faint_texts(page):
    """Texts whose contrast with what lies behind them is below 4.5 : 1, hatching included."""
    return page.evaluate(f"""(least) => {{ {TEXTS}
      const parse = (color) => {{
        const [r, g, b, a = 1] = color.match(/[\\d.]+/g).map(Number);
        return {{ r, g, b, a }};
      }};
      const over = (top, below) => ({{
        r: top.r * top.a + below.r * (1 - top.a),
        g: top.g * top.a + below.g * (1 - top.a),
        b: top.b * top.a + below.b * (1 - top.a), a: 1,
      }});
      const luminance = ({{ r, g, b }}) => [r, g, b]
        .map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
        .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
      const contrast = (one, other) => {{
        const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
        return (light + 0.05) / (dark + 0.05);
      }};
      // What may lie behind an element: its colour over that of its ancestors, and each colour of a pattern on it.
      // Grid lines one pixel wide are no background.
      const behind = (element) => {{
        if (!element) return [{{ r: 255, g: 255, b: 255, a: 1 }}];
        const style = getComputedStyle(element);
        const color = parse(style.backgroundColor);
        const below = color.a === 1 ? [color] : behind(element.parentElement).map((lower) => over(color, lower));
        const pattern = element.matches('.plot') ? [] : (style.backgroundImage.match(/rgba?\\([^)]*\\)/g) ?? []).map(parse);
        return below.concat(pattern.flatMap((ink) => below.map((lower) => over(ink, lower))));
      }};
      const found = [];
      for (const {{ element, text }} of texts()) {{
        const ink = parse(getComputedStyle(element).color);
        const worst = Math.min(...behind(element).map((ground) => contrast(over(ink, ground), ground)));
        if (worst < least) found.push(`${{worst.toFixed(2)}}: ${{text.slice(0, 40)}}`);
      }}
      return found;
    }}""", CONTRAST)


def columns(page):
    """What each column shows: {domain: {"blocks": {table id: height in pixels}, "cold": text}}."""
    shown = page.evaluate("""() => [...document.querySelectorAll('.domain')].map((column) => [
      Number(column.dataset.key), {
        cold: column.querySelector('.cold').textContent,
        blocks: Object.fromEntries([...column.querySelectorAll('.block')]
          .map((block) => [block.dataset.key, block.getBoundingClientRect().height])),
      }])""")
    return dict(shown)
