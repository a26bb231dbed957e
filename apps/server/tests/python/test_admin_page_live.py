"""The admin port of the real server under a little traffic: the page in a browser, and the metrics in a parser."""

import json
import re
import threading
from contextlib import contextmanager

import fake_state
import numpy as np
import pytest
from page_checks import DESKTOP, PHONE, check_page, opened
from playwright.sync_api import expect
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from qdrant_client import models
from server import eventually, flood, running

DIM = 16
COLLECTIONS = {
    "songs": {"optimizers_config": models.OptimizersConfigDiff(indexing_threshold=64)},
    "papers": {"metadata": {"chiplet.index": "ivf", "chiplet.nlist": 16, "chiplet.nprobe": 4},
               "optimizers_config": models.OptimizersConfigDiff(indexing_threshold=64)},
}
# Tables with labels of their own; all others are one, `other`.
TABLES_SHOWN = 20


def fill(client, name, count, **settings):
    client.create_collection(name, models.VectorParams(size=DIM, distance=models.Distance.COSINE), **settings)
    if count:
        vectors = np.random.default_rng(11).normal(size=(count, DIM)).astype(np.float32)
        client.upload_collection(name, vectors, ids=list(range(count)), batch_size=1_000, wait=True)


@contextmanager
def traffic(server, names):
    """Queries to each of `names` in turn, until the block ends."""
    client, ended, problems = server.client(), threading.Event(), []

    def ask():
        queries = np.random.default_rng(12).normal(size=(50, DIM)).tolist()
        try:
            while not ended.is_set():
                for query in queries[:10]:
                    for name in names:
                        client.query_points(name, query)
        except Exception as problem:  # WithReport where the block ends.
            problems.append(problem)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(60)
    assert not thread.is_alive() and problems == []


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    """A server with a collection of each kind, indexed and under traffic."""
    with running(tmp_path_factory.mktemp("busy")) as server:
        client = server.client()
        for name, settings in COLLECTIONS.items():
            fill(client, name, 3_000, **settings)
        for name in COLLECTIONS:
            eventually(lambda name=name: client.get_collection(name).status == models.CollectionStatus.GREEN)
        with traffic(server, list(COLLECTIONS)):
            yield server


def state(server):
    status, text = server.get("/api/state")
    assert status == 200
    return json.loads(text)


def fields(answer, path=""):
    """The path of each field of `answer`; one path for all members of a list."""
    if isinstance(answer, list):
        return set().union(*(fields(member, f"{path}[]") for member in answer))
    if isinstance(answer, dict):
        return set().union({f"{path}.{name}" for name in answer}, *(fields(of, f"{path}.{name}") for name, of in answer.items()))
    return set()


def test_the_made_up_answers_have_every_field_of_the_servers(busy):
    assert fields(state(busy)) - fields(fake_state.two_domains()) == set()


def number(text):
    return float(re.sub(r"[^0-9.]", "", text) or 0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_page_shows_the_running_server(browser, busy, screenshot, viewport, scheme):
    with opened(browser, busy.admin_url, viewport, scheme) as page:
        domains = state(busy)["domains"]
        expect(page.locator("#status")).to_have_text(re.compile(r"^\s*Ready\s*$"))
        expect(page.locator("header")).to_contain_text(f"gRPC at 127.0.0.1:{busy.grpc_port}")
        expect(page.locator(".domain h3")).to_have_text([f"Domain {domain['id']}" for domain in domains])
        for row, index in [("songs", "hnsw"), ("papers", "ivf")]:
            shown = page.locator("tbody tr").filter(has=page.locator("bdi", has_text=row))
            expect(shown.locator('[data-slot="index"]')).to_have_text(index)
            expect(shown.locator('[data-slot="points"]')).to_have_text("3,000")
            expect(shown.locator('[data-slot="status"]')).to_have_text("serving")
            expect(shown.locator('[data-slot="memory"]')).to_have_text(re.compile(r"^0 \([1-9].* [KM]iB\)"))
            expect(shown.locator('[data-slot="rate"]')).to_have_text(re.compile(r"[1-9]"), timeout=15_000)
            expect(shown.locator('[data-slot="service50"]')).to_have_text(re.compile(r"[1-9].* (µs|ms)"), timeout=15_000)
            expect(page.locator(".domain").filter(has_text=row).locator(".block .name", has_text=row)).not_to_have_count(0)
        expect(page.locator('.tiles [data-slot="rate"]')).to_have_text(re.compile(r"[1-9]"), timeout=15_000)
        expect(page.locator(".health")).to_contain_text(re.compile(r"over [\d.]+ s"))
        expect(page.locator("#damaged")).to_be_hidden()
        expect(page.locator("#empty")).to_be_hidden()
        # However few domains there are, their columns take the room there is.
        room = page.locator(".columns").evaluate("(list) => list.clientWidth - list.lastElementChild.getBoundingClientRect().right + list.getBoundingClientRect().left")
        assert room < 20
        screenshot(page, f"live-{viewport['width']}-{scheme}")
        check_page(page)


def test_the_figures_move_and_agree_with_the_server(browser, busy):
    with opened(browser, busy.admin_url) as page:
        done = page.locator('.tiles [data-slot="done"]')
        before = number(done.text_content())
        expect(done).not_to_have_text(re.compile(f"^{before:,.0f} done$"), timeout=15_000)
        assert before < number(done.text_content()) <= state(busy)["totals"]["done"]


def test_a_server_without_collections_says_which_call_makes_one(browser, tmp_path, screenshot):
    with running(tmp_path) as server, opened(browser, server.admin_url, PHONE) as page:
        empty = page.locator("#empty")
        expect(empty).to_contain_text("No tables yet")
        expect(empty).to_contain_text("Collections/Create")
        expect(empty).to_contain_text("client.create_collection(")
        expect(empty).to_contain_text(f"127.0.0.1:{server.grpc_port}")
        screenshot(page, "live-empty")
        check_page(page)
        fill(server.client(), "first", 10)
        expect(empty).to_be_hidden(timeout=15_000)
        expect(page.locator("tbody bdi")).to_have_text(["first"])


def test_every_damaged_collection_is_named_with_its_file(browser, tmp_path, screenshot):
    with running(tmp_path) as server:
        for name in ["good", "bad", "worse"]:
            fill(server.client(), name, 10)
    for name in ["bad", "worse"]:
        (tmp_path / f"{name}.redb").write_bytes(b"")
    with running(tmp_path) as server, opened(browser, server.admin_url) as page:
        expect(page.locator("#damaged-title")).to_have_text("2 damaged tables, not served")
        # Also after the page has drawn several answers.
        for _ in range(3):
            with page.expect_response("**/api/state"):
                pass
            expect(page.locator("#damaged bdi")).to_have_text(["bad", "worse"])
            expect(page.locator("tbody bdi")).to_have_text(["bad", "worse", "good"])
            for name in ["bad", "worse"]:
                expect(page.locator("#damaged li", has_text=name)).to_contain_text(f"{name}.redb")
        screenshot(page, "live-damaged")
        check_page(page)
        server.client().delete_collection("bad")
        expect(page.locator("#damaged bdi")).to_have_text(["worse"], timeout=15_000)
        expect(page.locator("tbody bdi")).to_have_text(["worse", "good"])


def test_a_draining_server_says_so(browser, tmp_path):
    with running(tmp_path, drain_notice_seconds=5) as server, opened(browser, server.admin_url) as page:
        expect(page.locator("#status")).to_contain_text("Ready")
        server.terminate()
        expect(page.locator("#status")).to_contain_text("Draining")
        assert server.get("/readyz")[0] == 503
        assert server.get("/livez")[0] == 200
        server.wait()


EXPECTED = {
    "grpc_server_handled": "counter", "grpc_server_handling_seconds": "histogram",
    "chiplet_server_ready": "gauge", "chiplet_server_connections": "gauge", "chiplet_server_collections": "gauge",
    "chiplet_server_memory_used_bytes": "gauge", "chiplet_domain_queue_depth": "gauge",
    "chiplet_domain_workers": "gauge", "chiplet_domain_workers_busy": "gauge", "chiplet_domain_queries": "counter",
    "chiplet_domain_steals": "counter", "chiplet_domain_wait_seconds": "histogram",
    "chiplet_domain_service_seconds": "histogram", "chiplet_placement_version": "gauge", "chiplet_remaps": "counter",
    "chiplet_server_writes_failed": "counter", "chiplet_table_queries": "counter", "chiplet_table_shed": "counter", "chiplet_table_wait_seconds": "histogram",
    "process_resident_memory_bytes": "gauge", "process_cpu_seconds": "counter", "process_open_fds": "gauge",
}


def test_a_scraper_finds_every_family(busy):
    eventually(lambda: state(busy)["totals"]["done"] > 0)
    kinds = {family.name: family.type for family in text_string_to_metric_families(busy.get("/metrics")[1])}
    assert {name: kinds.get(name) for name in EXPECTED} == EXPECTED


def test_metrics_count_what_happened(busy):
    def reading():
        found = busy.metrics()
        answered = found["grpc_server_handled"]["grpc_server_handled_total"]
        queries = answered.get(frozenset({("method", "qdrant.Points/Query"), ("code", "OK")}), 0)
        tables = found["chiplet_table_queries"]["chiplet_table_queries_total"]
        return queries, sum(tables.values()), found

    first, first_tables, _ = reading()
    eventually(lambda: reading()[0] > first + 100)
    later, later_tables, found = reading()
    assert later > first and later_tables > first_tables
    resident = found["process_resident_memory_bytes"]["process_resident_memory_bytes"][frozenset()]
    assert 1e6 < resident < 1e11
    assert found["chiplet_server_ready"]["chiplet_server_ready"][frozenset()] == 1
    domains = {str(domain["id"]) for domain in state(busy)["domains"]}
    for family in ["chiplet_domain_queue_depth", "chiplet_domain_workers_busy"]:
        assert {dict(labels)["domain"] for labels in found[family][family]} == domains
    steals = found["chiplet_domain_steals"]["chiplet_domain_steals_total"]
    assert {dict(labels)["level"] for labels in steals} == {"own", "domain", "remote"}
    moved = found["chiplet_domain_moved"]["chiplet_domain_moved_total"]
    assert {dict(labels)["reason"] for labels in moved} == {"rebalanced", "overflow"}
    # Cumulative buckets that end with everything.
    service = found["chiplet_domain_service_seconds"]
    for domain in domains:
        buckets = {float(dict(labels)["le"]): value for labels, value in service["chiplet_domain_service_seconds_bucket"].items()
                   if dict(labels)["domain"] == domain}
        values = [buckets[bound] for bound in sorted(buckets)]
        assert values == sorted(values)
        assert values[-1] == service["chiplet_domain_service_seconds_count"][frozenset({("domain", domain)})] > 0


def test_a_shed_is_counted_under_its_reason(tmp_path):
    with running(tmp_path, scheduler__workers=1, scheduler__queue_per_worker=1, limits__memory_bytes=4_000_000) as server:
        client = server.client()
        fill(client, "one", 10_000)
        assert flood(client, "one", [1.0] * DIM)
        with pytest.raises(Exception, match="limits.memory_bytes"):
            client.upload_collection("one", np.ones((20_000, DIM), np.float32), batch_size=20_000, wait=True, max_retries=0)
        found = server.metrics()
        shed = {dict(labels)["reason"]: value for labels, value in found["chiplet_server_shed"]["chiplet_server_shed_total"].items()}
        assert shed.pop("memory_limit") >= 1
        assert sum(shed.values()) >= 1 and set(shed) <= {"queue_full", "table_queue_full"}
        by_domain = found["chiplet_domain_shed"]["chiplet_domain_shed_total"]
        assert sum(by_domain.values()) >= 1


def test_labels_stay_bounded_with_many_collections(browser, tmp_path, screenshot):
    with running(tmp_path) as server:
        client = server.client()
        names = [f"collection number {number}" for number in range(59)] + ["other"]
        for name in names:
            fill(client, name, 2)
            client.query_points(name, [1.0] * DIM)
        # A client that asks for things that do not exist must not make labels either.
        for number_of in range(50):
            with pytest.raises(Exception, match="no collection"):
                client.count(f"unknown {number_of}")
        found = server.metrics()
        for family, samples in found.items():
            for sample, values in samples.items():
                tables = {dict(labels)["table"] for labels in values if "table" in dict(labels)}
                assert len(tables) <= TABLES_SHOWN + 1, sample
                assert len(values) <= 1_000, sample
                assert not any("unknown" in value for labels in values for _, value in labels), sample
        queries = found["chiplet_table_queries"]["chiplet_table_queries_total"]
        assert sum(queries.values()) == 60, "those without a label of their own are counted as others"
        assert queries[frozenset({("table", "other")})] == 60 - TABLES_SHOWN
        with opened(browser, server.admin_url) as page:
            expect(page.locator("#tables .soft").first).to_contain_text(f"The busiest {TABLES_SHOWN} of 60")
            screenshot(page, "live-60-collections")
            check_page(page)
