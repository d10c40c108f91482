import pytest

DISTRIBUTION_TESTS = pytest.StashKey[int]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    # First: before -m or -k deselects any.
    marked = [item for item in items if item.get_closest_marker("distribution")]
    config.stash[DISTRIBUTION_TESTS] = len(marked)


@pytest.fixture
def distribution_tests(request):
    """Return the number of distribution tests collected in this run."""
    return request.config.stash[DISTRIBUTION_TESTS]
