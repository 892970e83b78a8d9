"""pytest plugin: options that name a server and its reference, fixtures for tests that audit it, and the verdicts after all tests.

Nothing of an audit is imported before a test asks for it, so other tests of a project do not wait for torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from specviz.audit.outcomes import listeners

if TYPE_CHECKING:
    from specviz.audit.many_prompts import PromptReports
    from specviz.audit.run import AuditReport

GROUP = "specviz"
URL_OPTION = "--specviz-url"
REFERENCE_OPTIONS = {  # option -> keyword argument of an audit, help
    "--specviz-against": ("against", "address of the same server without speculation, the reference"),
    "--specviz-against-model": ("against_model", "the model's name there"),
    "--specviz-target": ("target", "folder or hub name of the target, the reference in place of a second server"),
    "--specviz-draft": ("draft", "folder or hub name of the draft, which a diagnosis needs"),
    "--specviz-dtype": ("dtype", "number type of the target, such as bfloat16"),
}
SERVER_OPTIONS = {
    "--specviz-model": ("model", "the model's name on the server"),
    "--specviz-api-key-variable": ("api_key_variable", "environment variable that holds the server's key"),
}
FOLDER_OPTION = "--specviz-out"
VERDICT, SENTENCE = "specviz.verdict", "specviz.sentence"  # properties of a test


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup(GROUP, "audits of a running server (specviz)")
    group.addoption(
        URL_OPTION, metavar="URL", help="address of the server, such as http://HOST:PORT/v1; without it these tests are skipped"
    )
    for option, (_, meaning) in (REFERENCE_OPTIONS | SERVER_OPTIONS).items():
        group.addoption(option, metavar="X", help=meaning)
    group.addoption(
        FOLDER_OPTION, metavar="DIR", help="folder for samples, record and report, one folder for each test (default: temporary)"
    )


def _read_options(config: pytest.Config, options: dict[str, tuple[str, str]]) -> dict[str, Any]:
    """Keyword arguments of the options that were given."""
    given = {name: config.getoption(option) for option, (name, _) in options.items()}
    return {name: value for name, value in given.items() if value is not None}


@pytest.fixture(scope="session")
def specviz_server(pytestconfig: pytest.Config) -> str:
    """Address of the server of ``--specviz-url``. A test that uses it is skipped where there is none."""
    url = pytestconfig.getoption(URL_OPTION)
    if not url:
        pytest.skip(f"{URL_OPTION} names no server")
    return url


@pytest.fixture(scope="session")
def specviz_reference(pytestconfig: pytest.Config) -> dict[str, Any]:
    """The reference of the server, as keyword arguments of ``assert_lossless``."""
    found = _read_options(pytestconfig, REFERENCE_OPTIONS)
    if not {"against", "target"} & found.keys():
        raise pytest.UsageError("There is no reference: give --specviz-against URL or --specviz-target DIR.")
    return found


@pytest.fixture
def assert_server_lossless(
    request: pytest.FixtureRequest, specviz_server: str, specviz_reference: dict[str, Any], tmp_path: Path
) -> Callable[..., AuditReport | PromptReports]:
    """``assert_lossless`` for the server and the reference of the options, with the keyword arguments that it has.

    The reports are shown with the test's output.
    """
    from specviz.audit.assertions import assert_lossless

    folder = request.config.getoption(FOLDER_OPTION)
    numbers = iter(range(10**6))

    def check(**options: Any) -> AuditReport | PromptReports:
        own = Path(folder) / _name_folder(request.node.nodeid) if folder else tmp_path
        given = _read_options(request.config, SERVER_OPTIONS) | specviz_reference | options
        report = assert_lossless(specviz_server, own / f"audit-{next(numbers)}", **given)
        print(report)
        return report

    return check


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Make the verdict of every audit in a test a property of the test, which JUnit has."""

    def add_properties(report: AuditReport | PromptReports) -> None:
        item.user_properties += [(VERDICT, report.verdict), (SENTENCE, report.sentence)]

    listeners.append(add_properties)
    try:
        yield
    finally:
        listeners.remove(add_properties)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the sentence of every audit: a test that passed says what it would have detected."""
    reports = [report for found in terminalreporter.stats.values() for report in found if getattr(report, "when", "") == "call"]
    lines = [f"{report.nodeid}: {value}" for report in reports for name, value in report.user_properties if name == SENTENCE]
    if lines:
        terminalreporter.section("specviz audits")
        for line in lines:
            terminalreporter.write_line(line)


def _name_folder(node_id: str) -> str:
    """A folder name for a test."""
    return "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in node_id)[-100:]
