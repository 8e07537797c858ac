"""A harness that notes when it is first asked to start; for bench/start.py."""

import os
import time

from pydantic import BaseModel, ConfigDict

from proctor.environments.contract import EnvironmentSession
from proctor.evals.contracts import AttemptContext, Harness, HarnessSession, PreparedTask
from proctor.harnesses.nop import Nop


class StampOptions(BaseModel):
    """`path`: where the first start writes the system's monotonic time in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    path: str


class Stamp(Harness):
    """Does nothing, and says when it began."""

    id = "stamp"
    Options = StampOptions

    async def start(
        self, session: EnvironmentSession, task: PreparedTask, context: AttemptContext
    ) -> HarnessSession:
        moment = time.monotonic()
        try:
            fd = os.open(self.options.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC)
        except FileExistsError:
            pass
        else:
            os.write(fd, str(moment).encode("ascii"))
            os.close(fd)
        return await Nop().start(session, task, context)
