"""The systems, their settings, and how one case of each is run."""

import sys
from contextlib import closing
from dataclasses import dataclass, field

from bench.durable.work import RESULT_BYTES, SERVER_PID
from bench.journal_server import server_pid
from bench.measured import look_at, run, scratch
from bench.peers.installed import Peer, interpreter
from proctor.agent.tools import Effect

SQLITE = "SQLite"
POSTGRESQL = "PostgreSQL"


@dataclass(frozen=True, slots=True)
class System:
    """A system and the databases it is measured on. `steps` and `effects`: the variants of its
    case; `schema`: where its tables lie on PostgreSQL."""

    title: str
    module: str
    settings: str
    steps: tuple[str, ...]
    effects: tuple[str, ...]
    databases: tuple[str, ...] = (SQLITE, POSTGRESQL)
    schema: str = "proctor_agent"
    peer: Peer | None = field(default=None, compare=False)

    def python(self) -> str:
        """Its interpreter. Raises NotInstalled."""
        return sys.executable if self.peer is None else str(interpreter(self.peer))


_LANGGRAPH = Peer(
    "langgraph", "1.2.24", "bench.durable.langgraph_case",
    also=("langgraph-checkpoint-sqlite==3.1.2",), env={"LANGSMITH_TRACING": "false"},
)  # fmt: skip
_DBOS = Peer("dbos", "3.4.0", "bench.durable.dbos_case", also=("psycopg[binary]==3.3.9",))

SYSTEMS = (
    System(
        "proctor", "bench.durable.own_case",
        "WAL, a sync at each barrier; synchronous_commit on at each barrier",
        ("idempotent", "non_repeatable"), tuple(effect.value for effect in Effect),
    ),
    System(
        _LANGGRAPH.title, _LANGGRAPH.module,
        "durability sync; SqliteSaver 3.1.2 (one run), AsyncSqliteSaver (several): WAL, synchronous"
        " FULL; resumed by invoke(None) of the same thread",
        ("list", "delta"), ("plain", "keyed"), (SQLITE,), peer=_LANGGRAPH,
    ),
    System(
        _DBOS.title, _DBOS.module,
        "its defaults: rollback journal, synchronous FULL; synchronous_commit on; recovered by"
        " launch()",
        ("default",), ("plain", "keyed"), schema="dbos", peer=_DBOS,
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Costs:
    """One case of steps. CPU in ms a step, of the process and of the server; `stored`: bytes on
    disk ÷ bytes of the results."""

    per_s: float
    cpu_ms: float
    server_ms: float
    stored: float


def steps(system: System, url: str | None, variant: str, shape: tuple[int, int]) -> Costs:
    """Run `shape` = (runs, steps of each). On SQLite unless there is a `url`. Raises CaseFailed."""
    place, env = place_of(system, url)
    runs, count = shape
    before = 0 if url is None else _size(place, system.schema)
    with scratch() as folder:
        argv = [system.python(), "-m", system.module, "steps", place, variant]
        own = run([*argv, str(runs), str(count), "{report}"], folder, env).own
        if url is None:
            (folder / "report.json").unlink()
            stored = look_at(folder).size_bytes
        else:
            stored = _size(place, system.schema) - before
    done = own["steps"]
    cpu_s = own["user_s"] + own["system_s"]
    return Costs(
        done / own["wall_s"],
        cpu_s / done * 1000,
        own["server_s"] / done * 1000,
        stored / (done * RESULT_BYTES),
    )


def place_of(system: System, url: str | None) -> tuple[str, dict[str, str]]:
    """What the case is told, and its variables. A peer has a database of its own."""
    env = dict(system.peer.env) if system.peer else {}
    if url is None:
        return "sqlite", env
    env[SERVER_PID] = str(server_pid(url))
    return (url.replace("/postgres?", f"/{system.schema}?") if system.peer else url), env


def _size(url: str, schema: str) -> int:
    """Bytes of the tables and indexes in `schema`."""
    import psycopg

    query = (
        "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c"
        " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE relkind = 'r' AND nspname = %s"
    )
    try:
        with closing(psycopg.connect(url)) as connection:
            row = connection.execute(query, (schema,)).fetchone()
    except psycopg.OperationalError:  # its database is made by its first case
        return 0
    return int(row[0]) if row else 0
