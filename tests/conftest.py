"""What every test may ask for."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests.databases import postgresql_url  # noqa: F401 - a fixture
from tests.sampling import chosen, repeats

ROOT = Path(__file__).resolve().parent.parent


# The same examples everywhere, and no verdict from how busy the machine is.
settings.register_profile(
    "same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("same")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--full", action="store_true", help="run the whole of the long suites, not a sample"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--full"):
        return
    left_out = {
        item
        for item in items
        if item.get_closest_marker("full") or (repeats(item) and not chosen(item))
    }
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def need():
    """`need(condition, reason)`: skip when it does not hold; in CI (CI=true) fail instead."""

    def check(condition: object, reason: str) -> None:
        if condition:
            return
        if os.environ.get("CI") == "true":
            pytest.fail(f"{reason} (in CI nothing is skipped)", pytrace=False)
        pytest.skip(reason)

    return check


@pytest.fixture(scope="session")
def shared_data(need) -> Path:
    """The folder of real data sets beside the checkout."""
    folder = ROOT.parent / "shared" / "data"
    need(folder.is_dir(), "the real data sets are not there: ../shared/data")
    return folder
