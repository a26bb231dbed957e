"""Fixtures of all tests here.

Needed: `pip install -r requirements.txt`; for the page Chromium (Debian: `apt-get install chromium fonts-dejavu-core`);
for the server its binary, named by `CHIPLET_GRPC_SERVER`. `CHIPLET_SCREENSHOTS` names a folder for pictures of the
page."""

import os
from pathlib import Path

import pytest
from page_checks import chromium
from server import Server, running


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    server = getattr(item, "funcargs", {}).get("server")
    if report.failed and isinstance(server, Server):
        report.sections.append(("the end of the server's log", server.log_tail()))
    return report


@pytest.fixture(scope="session")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture
def screenshot(tmp_path):
    folder = Path(os.environ.get("CHIPLET_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return lambda page, name, whole=True: page.screenshot(path=folder / f"{name}.png", full_page=whole)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One server for all tests of a file that need none of their own."""
    with running(tmp_path_factory.mktemp("data")) as server:
        yield server


@pytest.fixture(scope="module")
def client(server):
    return server.client()


@pytest.fixture
def name(request, client):
    """A collection's name that no other test uses; the collection is deleted afterwards."""
    name = request.node.name[:200].translate(str.maketrans('/\\<>:"|?*', "_________"))
    yield name
    client.delete_collection(name)
