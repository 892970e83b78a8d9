"""One thread per test process: two cores are shared with a browser. Pairs are made once."""

from __future__ import annotations

import gc
import logging
import os
import sys
import tempfile
import threading
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ["XDG_STATE_HOME"] = os.path.join(tempfile.gettempdir(), f"specviz-tests-{os.getpid()}")  # made when it is written to

import pytest
from _pytest import logging as pytest_logging

from tests.helpers.case_choice import mark_cases_slow
from tests.helpers.cpu_budgets import pytest_collection_finish as pytest_collection_finish
from tests.helpers.cpu_budgets import pytest_runtest_makereport as pytest_runtest_makereport
from tests.helpers.cpu_budgets import pytest_terminal_summary as pytest_terminal_summary
from tests.helpers.cpu_budgets import pytest_testnodedown as pytest_testnodedown
from tests.helpers.fresh_process import fork_server

gc.set_threshold(50_000, 20, 100)  # cycles are collected after each file; by default a tenth of the tests' time goes into that

# The longest work is begun first: single files, then folders by the seconds that a file of theirs takes.
LONGEST = (
    "tests/browser/test_classroom.py",
    "tests/browser/test_first_screen.py",
    "tests/browser/test_presenter.py",
    "tests/browser/test_accessibility.py",
    "tests/browser/",
    "tests/audit/test_command.py",
    "tests/evidence/test_matrix.py",
    "tests/export/test_matplotlib_adapter.py",
    "tests/test_without_app.py",
    "tests/test_threads.py",
    "tests/decoding/",
    "tests/audit/",
    "tests/verification/test_fixed_counts.py",
    "tests/evidence/",
    "tests/cli/",
    "tests/web/",
    "tests/models/",
    "tests/proposers/",
)


BROWSER = "tests/browser/"  # every test in it drives a browser


def pytest_configure(config):
    """A worker of a whole lane imports what pages need in any case, so it forks the server of tests/helpers/fresh_process.py after that."""
    if hasattr(config, "workerinput") and [Path(one).resolve() for one in config.args] == [Path(__file__).parent]:
        gc.disable()  # until the tests run: all of it stays
        fork_server()


class RootLogs(pytest_logging.catching_logs):
    """The records logged in a test, of loggers that propagate; all of it in a test that reads ``caplog``.

    pytest adds its two handlers to each of Streamlit's hundreds of loggers six times for each test, which takes longer than many a test.
    """

    everywhere = True

    def __enter__(self):
        self.has_whole = self.everywhere or self.level is not None
        if self.has_whole:
            return super().__enter__()
        logging.getLogger().addHandler(self.handler)
        return self.handler

    def __exit__(self, *error):
        if self.has_whole:
            return super().__exit__(*error)
        logging.getLogger().removeHandler(self.handler)
        return None


pytest_logging.catching_logs = RootLogs


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    RootLogs.everywhere = "caplog" in item.fixturenames


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item):
    """Give the tests of a browser their marker, so that they are a lane of their own."""
    if item.nodeid.startswith(BROWSER):
        item.add_marker("browser")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items):
    """Whole files keep together and their tests in order; with --dist loadfile a process then takes the next file of this order."""
    mark_cases_slow(items)
    yield  # of those that stay, once -m and -k have chosen
    items.sort(key=lambda item: next((n for n, start in enumerate(LONGEST) if item.nodeid.startswith(start)), len(LONGEST)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop():
    """Objects that imports have made are exempt from garbage collections too: all of them stay."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """Objects that a file leaves behind (models, figures) are exempt from later garbage collections, which would scan it again and again."""
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def pytest_sessionfinish():
    """Pages may have begun work or an import of torch in the background: a process that ends in the middle of that is aborted."""
    module = sys.modules.get("specviz.web.hosting.server_queue")
    if module is not None:
        for ticket in [*module.get_server_queue()._waiting, *module.get_server_queue()._working]:
            ticket.discard()
    for thread in threading.enumerate():
        if thread.name in ("heavy-imports", "queued job", "models"):
            thread.join(60.0)


@pytest.fixture(scope="session", autouse=True)
def short_reports():
    """200 samples of each kind and 200 permutations for the test of two samples, and 6 prefixes for the distance that is computed without samples.

    What both detect is shown in tests/statistics/test_twosample.py and tests/evidence/analytic, with numbers of their own.
    """
    from specviz.evidence.testing import results
    from specviz.statistics import twosample

    with pytest.MonkeyPatch.context() as patched:
        needed = twosample.count_permutations
        patched.setattr(twosample, "count_permutations", lambda alpha: 200)
        patched.setattr(results, "REFERENCE_SAMPLES", 200)
        patched.setattr(results, "ANALYTIC_PREFIXES", 6)
        yield needed


@pytest.fixture
def all_permutations(short_reports, monkeypatch):
    """As many permutations as the level of a test of two samples needs: it can then reject."""
    from specviz.statistics import twosample

    monkeypatch.setattr(twosample, "count_permutations", short_reports)
    return short_reports


@pytest.fixture(scope="session")
def pair_folders(tmp_path_factory):
    """Target and draft folders of a tiny random pair."""
    from tests.helpers.tiny_pairs import write_pair

    return write_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture
def hub(tmp_path):
    """A model hub in a thread; the clients of this process ask it, and keep what they download below the test's folder."""
    from tests.helpers.local_hub import connect_hub

    with connect_hub(tmp_path / "hub-cache") as hub:
        yield hub


@pytest.fixture(scope="session")
def pair(pair_folders):
    """The tiny random pair, loaded as a user's own would be."""
    from specviz.models.pairs.loading import load_pair

    return load_pair("|".join(map(str, pair_folders)), device="cpu")


@pytest.fixture(scope="session")
def encoder_decoder_folders(tmp_path_factory):
    """By kind: target and draft folders of tiny random encoder-decoder pairs."""
    from tests.helpers.encoder_decoders import KINDS, write_encoder_decoders

    return {kind: write_encoder_decoders(tmp_path_factory.mktemp("encoder-decoder"), kind) for kind in KINDS}


@pytest.fixture(scope="session")
def encoder_decoders(encoder_decoder_folders):
    """By kind: these pairs in float64."""
    from specviz.models.pairs.loading import load_pair

    return {kind: load_pair("|".join(map(str, where)), "cpu", "float64") for kind, where in encoder_decoder_folders.items()}


@pytest.fixture(scope="session")
def report(pair_folders, tmp_path_factory):
    """The file that verify writes on the tiny pair."""
    from tests.helpers.certificate_files import write_report

    return write_report(pair_folders, tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def record(report):
    """What stands in it."""
    from specviz.evidence.sampling.certificate import read_certificate

    return read_certificate(report)


@pytest.fixture
def no_pictures(monkeypatch):
    """An export without the bytes of its figures, which take longer than all else in it: for tests that read its other files."""
    from specviz.export import matplotlib_adapter, package
    from specviz.web.one_round import slides

    class Sheet:
        def get_figwidth(self):
            return 1.0

    monkeypatch.setattr(package.Picture, "draw_for_print", lambda one, form="": Sheet())
    monkeypatch.setattr(package, "build_html_page", lambda figures, title, captions: "")
    monkeypatch.setattr(matplotlib_adapter, "save_pdf", lambda pages: b"")
    monkeypatch.setattr(matplotlib_adapter, "save_figure", lambda drawn, kind, dpi=0: b"")
    monkeypatch.setattr(slides, "draw_slide", lambda payload, round_, step: None)
    monkeypatch.setattr(slides, "build_animation", lambda payload, round_: b"")


@pytest.fixture
def page_pair(pair, monkeypatch):
    """The work of pages without a server: the tiny pair is what their weights are."""
    from specviz.web.hosting import cache, warmup

    monkeypatch.setattr(warmup, "wait", lambda seconds: True)
    monkeypatch.setattr(cache, "load_weights", lambda *key: pair)
    return pair


@pytest.fixture(scope="session")
def storybook():
    """The shipped pair."""
    from specviz.models.pairs.loading import load_pair

    return load_pair("storybook", device="cpu", dtype="float32")
