"""The admin page in a real browser, with made-up answers of the server."""

import re

import fake_state
import pytest
from page_checks import DESKTOP, PHONE, check_page, columns, faint_texts, misplaced_texts, opened
from page_checks import overlapping_texts, sideways_scroll
from page_server import PageServer
from playwright.sync_api import expect

# Chromium reports each refused request on the console; where the server goes away on purpose, that is no defect.
EXPECTED_WHILE_AWAY = "Failed to load resource"


@pytest.fixture
def page_server():
    server = PageServer(fake_state.two_domains())
    yield server
    server.stop()


def column(page, domain):
    return page.locator(f'.domain[data-key="{domain}"]')


def block(page, domain, table):
    return column(page, domain).locator(f'.block[data-key="{table}"]')


def traffic_by_home(state):
    """{(domain, table id): bytes per second}, as the state says it."""
    return {
        (home["domain"], table["id"]): table["traffic_bytes_per_second"] * home["weight"]
        for table in state["tables"]
        for home in table["homes"]
    }


@pytest.mark.parametrize("state", [fake_state.two_domains(), fake_state.many_domains()], ids=["2-domains", "12-domains"])
def test_every_domain_is_a_column_with_its_tables(browser, page_server, state):
    page_server.state = state
    with opened(browser, page_server.url) as page:
        expect(page.locator(".domain h3")).to_have_text([f"Domain {domain['id']}" for domain in state["domains"]])
        shown = columns(page)
        for domain in shown:
            expected = {table for (home, table) in traffic_by_home(state) if home == domain}
            blocks = {int(key) for key in shown[domain]["blocks"] if key != "cold"}
            cold = int(re.match(r"\d*", shown[domain]["cold"]).group() or 0)
            assert blocks and blocks <= expected
            assert len(blocks) + cold == len(expected)


@pytest.mark.parametrize("state", [fake_state.two_domains(), fake_state.many_domains()], ids=["2-domains", "12-domains"])
def test_heights_are_in_proportion_to_traffic_on_one_scale(browser, page_server, state):
    page_server.state = state
    expected = traffic_by_home(state)
    with opened(browser, page_server.url) as page:
        shown = {(domain, int(key)): height for domain, one in columns(page).items()
                 for key, height in one["blocks"].items() if key != "cold"}
        pixels_per_byte = sum(shown.values()) / sum(expected[home] for home in shown)
        for home, height in shown.items():
            assert height == pytest.approx(expected[home] * pixels_per_byte, abs=0.6), home
        # Cold tables are gathered, not left out: the columns keep their true height.
        for domain, one in columns(page).items():
            whole = sum(traffic for (home, _), traffic in expected.items() if home == domain)
            assert sum(one["blocks"].values()) == pytest.approx(whole * pixels_per_byte, abs=1.5)


def test_a_column_shows_its_queue_workers_and_times(browser, page_server):
    with opened(browser, page_server.url) as page:
        for text in ["16 of 2,048", "cpus 8-15 32 MiB L3", "6 of 8, 71 %", "1,646", "p50 4.1 µs", "p99 97 µs", "p50 90 µs", "p99 440 µs"]:
            expect(column(page, 1)).to_contain_text(text)
        width = column(page, 1).locator(".bar.workers i").evaluate("(bar) => bar.offsetWidth / bar.parentElement.offsetWidth")
        assert width == pytest.approx(0.705, abs=0.01)


def test_the_top_line_shows_state_and_totals(browser, page_server):
    with opened(browser, page_server.url) as page:
        expect(page.locator("#status")).to_have_text(re.compile("^\\s*Ready\\s*$"))
        expect(page.locator("header")).to_contain_text("up 3 h 12 min")
        for text in ["118", "own queue 93 %", "same domain 5.5 %", "other domain 1.3 %", "v15", "1 remap"]:
            expect(page.locator(".tiles")).to_contain_text(text)
        page_server.state["totals"]["shed"] += 7
        expect(page.locator(".tiles")).to_contain_text("125, growing")
        expect(page.locator(".tiles")).not_to_contain_text("growing")
        page_server.state = fake_state.draining()
        expect(page.locator("#status")).to_contain_text("Draining")
        page_server.state = fake_state.unready("2 of 7 tables are still being read")
        expect(page.locator("#status")).to_contain_text("Not ready")
        expect(page.locator("#status")).to_contain_text("2 of 7 tables are still being read")


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_hostile_names_are_shown_literally_and_run_nothing(browser, page_server, screenshot, viewport):
    page_server.state = fake_state.hostile()
    with opened(browser, page_server.url, viewport) as page:
        for name in fake_state.HOSTILE:
            for place in [".block .name", "tbody bdi", "#damaged bdi", ".moves bdi"]:
                assert name in page.locator(place).all_text_contents()
        assert page.locator("h1").text_content() == f"server {fake_state.RUNS_SCRIPT}"
        assert fake_state.RUNS_SCRIPT in page.locator("#remaps").text_content()
        assert page.locator("img").count() == 0
        assert page.evaluate("() => window.ran") is None
        check_page(page)
        screenshot(page, f"hostile-{viewport['width']}")


def test_a_damaged_table_says_what_is_wrong(browser, page_server):
    with opened(browser, page_server.url) as page:
        problem = page_server.state["tables"][6]["problem"]
        expect(page.locator("#damaged")).to_contain_text("1 damaged table")
        expect(page.locator("#damaged")).to_contain_text(problem)
        expect(page.locator('tr[data-status="red"]')).to_contain_text(problem)
        page_server.state["tables"].append(fake_state.damaged(40))
        expect(page.locator("#damaged bdi")).to_have_text([fake_state.name(6), fake_state.name(40)])
        page_server.state["tables"].pop(6)
        expect(page.locator("#damaged bdi")).to_have_text([fake_state.name(40)])
        expect(page.locator("tbody tr")).to_have_count(len(page_server.state["tables"]))
        page_server.state["tables"].pop()
        expect(page.locator("#damaged")).to_be_hidden()


def test_a_table_whose_index_failed_is_served_and_says_why(browser, page_server):
    with opened(browser, page_server.url) as page:
        page_server.state["tables"][0] |= {"status": "red", "problem": "the index library panicked"}
        row = page.locator("tbody tr").filter(has_text="the index library panicked")
        expect(row.locator('[data-slot="status"]')).to_have_text("no index")
        expect(page.locator("#damaged-title")).to_have_text("1 damaged table, not served")
        check_page(page)


def test_a_remap_appears_and_the_block_moves(browser, page_server, screenshot):
    with opened(browser, page_server.url) as page:
        expect(block(page, 0, 0)).to_be_visible()
        expect(page.locator('#remaps [role="status"]')).to_be_empty()
        page_server.state = fake_state.after_remap()
        expect(block(page, 1, 0)).to_have_class(re.compile(r"\bnew\b"))
        expect(block(page, 1, 0)).to_contain_text("new here")
        expect(block(page, 0, 0)).to_have_count(0)
        newest = page.locator("#remaps ol > li").first
        for text in ["songs", "domain 0", "domain 1", "v16", "36 % above the mean"]:
            expect(newest).to_contain_text(text)
        expect(page.locator('#remaps [role="status"]')).to_have_text("Remap: songs from domain 0 to domain 1")
        screenshot(page, "desktop-remap")
        check_page(page)
        expect(block(page, 1, 0)).not_to_have_class(re.compile(r"\bnew\b"), timeout=15_000)


@pytest.mark.parametrize("away", ["refused", "silent", "failing"])
def test_a_server_that_stops_answering_is_named_so_and_recovers(browser, page_server, screenshot, away):
    with opened(browser, page_server.url) as page:
        status = page.locator("#status")
        expect(status).to_contain_text("Ready")
        if away == "refused":
            page_server.stop()
        elif away == "silent":
            page_server.answering.clear()
        else:
            page_server.status = 503
        expect(status).to_contain_text(re.compile(r"Not reachable since \d\d:\d\d:\d\d"), timeout=15_000)
        expect(status).to_contain_text("the last ones received")
        if away == "failing":
            expect(status).to_contain_text("status 503")
        assert page.title().startswith("Not reachable")
        assert misplaced_texts(page) == [] and faint_texts(page) == [] and overlapping_texts(page) == []
        screenshot(page, f"not-reachable-{away}")

        page_server.state["totals"]["shed"] = 4_321
        if away == "refused":
            page_server.start()
        page_server.answering.set()
        page_server.status = 200
        expect(status).to_have_text(re.compile("^\\s*Ready\\s*$"), timeout=15_000)
        expect(page.locator("body[data-lost]")).to_have_count(0)
        expect(page.locator('[data-slot="shed"]').first).to_contain_text("4,321")
        assert [problem for problem in page.problems if EXPECTED_WHILE_AWAY not in problem] == []


def test_an_answer_that_cannot_be_drawn_does_not_pass_for_live(browser, page_server):
    with opened(browser, page_server.url) as page:
        page_server.state = {"server": {}}
        expect(page.locator("#status")).to_contain_text("Answer not understood")
        page_server.state = fake_state.two_domains()
        expect(page.locator("#status")).to_contain_text("Ready")


def test_a_hidden_tab_asks_for_nothing(browser, page_server):
    with opened(browser, page_server.url) as page:
        def hide(hidden):
            page.evaluate("""(hidden) => {
              Object.defineProperty(document, 'hidden', { configurable: true, value: hidden });
              document.dispatchEvent(new Event('visibilitychange'));
            }""", hidden)

        def asked():
            # Requests arrive in the order in which they were sent: one of ours behind any of the page's.
            page.evaluate("() => fetch('page.css').then((answer) => answer.text())")
            return page_server.asked

        def asked_in_twenty_seconds():
            before = asked()
            page.clock.run_for(20_000)
            return asked() - before

        # Hidden while a request is under way: its answer must not start the next one.
        page.clock.install()
        page_server.answering.clear()
        with page.expect_request("**/api/state"):
            page.reload()
        hide(True)
        page_server.answering.set()
        expect(page.locator("h1")).to_have_text("chiplet-server")
        assert asked_in_twenty_seconds() == 0

        # Hidden between two requests: the one that was due must not be sent.
        with page.expect_response("**/api/state"):
            hide(False)
        expect(page.locator("#status")).to_contain_text("Ready")
        hide(True)
        assert asked_in_twenty_seconds() == 0
        with page.expect_request("**/api/state"):
            hide(False)


def test_a_server_without_tables_says_how_to_add_one(browser, page_server, screenshot):
    page_server.state = fake_state.empty()
    with opened(browser, page_server.url) as page:
        expect(page.locator("#empty")).to_contain_text("No tables yet")
        expect(page.locator("#empty")).to_contain_text("127.0.0.1:6334")
        expect(page.locator(".domain")).to_have_count(2)
        expect(page.locator("#tables")).to_be_hidden()
        expect(page.locator("#remaps")).to_contain_text("None so far")
        check_page(page)
        screenshot(page, "empty")
        # Before it is ready its tables may still be on their way.
        page_server.state = fake_state.unready("2 of 7 tables are still being read")
        expect(page.locator("#empty")).to_be_hidden()
        page_server.state = fake_state.two_domains()
        expect(page.locator("tbody tr")).to_have_count(18)


def test_tables_are_sorted_by_their_headers_from_the_keyboard(browser, page_server):
    with opened(browser, page_server.url) as page:
        names = page.locator("tbody bdi")
        by_traffic = sorted(page_server.state["tables"], key=lambda table: (-table["traffic_bytes_per_second"], table["id"] or 0))
        expect(names).to_have_text([table["name"] for table in by_traffic])
        expect(page.locator('th[aria-sort="descending"]')).to_have_text("Traffic")

        page.get_by_role("button", name="Table", exact=True).focus()
        page.keyboard.press("Enter")
        expect(page.locator('th[aria-sort="ascending"]')).to_have_text("Table")
        expect(names).to_have_text(sorted(table["name"] for table in by_traffic))
        page.keyboard.press("Enter")
        expect(names).to_have_text(sorted((table["name"] for table in by_traffic), reverse=True))

        # What was not measured stays last in both directions.
        for times in range(2):
            page.get_by_role("button", name="Wait p99").press("Space")
            expect(page.locator("tbody tr").last.locator('[data-slot="wait99"]')).to_have_text("–")


def test_a_screen_reader_hears_changes_of_state_and_remaps_only(browser, page_server):
    with opened(browser, page_server.url) as page:
        live = page.locator('[aria-live], [role="status"], [role="alert"], [role="log"], [role="timer"]')
        expect(live).to_have_count(2)
        page.evaluate("""() => {
          window.spoken = 0;
          for (const region of document.querySelectorAll('[role="status"]'))
            new MutationObserver(() => { window.spoken += 1; }).observe(region, { childList: true, subtree: true, characterData: true });
        }""")
        for seconds in [12_000, 13_000, 14_000]:
            page_server.state["server"]["uptime_seconds"] = seconds
            page_server.state["totals"]["shed"] += 1
            expect(page.locator("header")).to_contain_text(f"{seconds % 3600 // 60} min")
        assert page.evaluate("() => window.spoken") == 0
        page_server.state = fake_state.draining()
        expect(page.locator("#status")).to_contain_text("Draining")
        assert page.evaluate("() => window.spoken") > 0
        headings = page.locator("h1, main h2").all_text_contents()
        assert headings == ["chiplet-server", "Totals", "1 damaged table, not served", "Domains", "Remaps", "Tables"]
        for role in ["banner", "main"]:
            expect(page.get_by_role(role)).to_have_count(1)


STATES = {
    "2-domains": fake_state.two_domains(),
    "12-domains": fake_state.many_domains(),
    "16-domains": fake_state.many_domains(domains=16),
    "draining": fake_state.draining(),
    "unready": fake_state.unready("2 of 7 tables are still being read"),
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("name", STATES)
def test_it_is_legible_and_fits(browser, page_server, screenshot, name, viewport, scheme):
    page_server.state = STATES[name]
    with opened(browser, page_server.url, viewport, scheme) as page:
        screenshot(page, f"{name}-{viewport['width']}-{scheme}", whole=len(page_server.state["tables"]) < 50)
        check_page(page)
        reach = page.locator(".columns").evaluate("(list) => list.scrollWidth - list.clientWidth")
        assert reach <= 0, "the columns must fit, or wrap, without scrolling"


@pytest.mark.parametrize("width", [320, 560, 700, 1000, 1001, 1920])
def test_it_fits_between_phone_and_desktop(browser, page_server, width):
    page_server.state = fake_state.many_domains()
    with opened(browser, page_server.url, {"width": width, "height": 800}) as page:
        check_page(page)


def test_the_checks_notice_what_they_look_for(browser, page_server):
    """Each defect is made by hand, so that a check that sees nothing is not taken for a page without defects."""
    with opened(browser, page_server.url) as page:
        check_page(page)
        page.evaluate("() => { document.querySelector('h2#tables-title').style.color = 'rgb(150, 150, 150)'; }")
        assert len(faint_texts(page)) == 1
        page.evaluate("() => { const h3 = document.querySelector('h3'); h3.style.width = '20px'; h3.style.whiteSpace = 'nowrap'; }")
        assert len(misplaced_texts(page)) == 1
        page.evaluate("() => { document.querySelector('.head .soft').style.transform = 'translateY(-12px)'; }")
        assert overlapping_texts(page)
        page.evaluate("() => { document.querySelector('h1').style.marginLeft = '3000px'; }")
        assert sideways_scroll(page) > 0
        page.evaluate("() => { const mark = document.createElement('p'); mark.setAttribute('style', 'color: red'); }")
        expect(page.locator("main")).to_be_visible()
        assert any("policy: style-src" in problem for problem in page.problems)
