"""What every environment provider must do, as a suite to subclass.

    class TestMine(EnvironmentConformance):
        def environment(self) -> Environment:
            return MyEnvironment()

pytest collects the inherited `test_*` methods. Each opens its own session and closes it, and then
compares `traces()` with what was there before: nothing may stay behind. The suite needs POSIX sh,
`python3` and the usual small commands inside the session.
"""

from proctor.testing.conformance.environment_commands import CommandCases
from proctor.testing.conformance.environment_driver import DriverCases
from proctor.testing.conformance.environment_files import FileCases
from proctor.testing.conformance.environment_life import LifeCases


class EnvironmentConformance(CommandCases, FileCases, LifeCases, DriverCases):
    """The whole suite. Override `environment`; `spec`, `unsupported` and `traces` where needed."""
