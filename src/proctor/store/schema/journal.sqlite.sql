-- generated from journal_tables.py by `python -m proctor.store.schema`; do not edit

CREATE TABLE action (
    run_no BIGINT NOT NULL,
    action_id TEXT NOT NULL CHECK (action_id <> ''),
    op_key TEXT NOT NULL CHECK (op_key <> ''),
    tool TEXT NOT NULL CHECK (tool <> ''),
    tool_version TEXT DEFAULT '' NOT NULL,
    effect TEXT NOT NULL CHECK (effect <> ''),
    arguments_digest TEXT NOT NULL CHECK (arguments_digest <> ''),
    state TEXT NOT NULL CHECK (state <> ''),
    attempts BIGINT DEFAULT 0 NOT NULL,
    resources TEXT DEFAULT '[]' NOT NULL,
    call_id TEXT,
    last_seq BIGINT DEFAULT 0 NOT NULL,
    body TEXT DEFAULT '{}' NOT NULL,
    PRIMARY KEY (run_no, action_id),
    UNIQUE (op_key),
    CHECK (effect IN ('pure', 'idempotent', 'queryable', 'non_repeatable')),
    CHECK (state IN ('ready', 'waiting', 'running', 'unknown', 'stopped', 'verifying', 'done', 'failed', 'cancelled'))
) WITHOUT ROWID;

CREATE TABLE attempt (
    run_no BIGINT NOT NULL,
    action_id TEXT NOT NULL CHECK (action_id <> ''),
    number BIGINT NOT NULL,
    fence BIGINT NOT NULL,
    state TEXT NOT NULL CHECK (state <> ''),
    started_seq BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    ended_seq BIGINT,
    ended_at BIGINT,
    external_ref TEXT,
    process_id TEXT,
    body TEXT DEFAULT '{}' NOT NULL,
    PRIMARY KEY (run_no, action_id, number),
    CHECK (number > 0)
) WITHOUT ROWID;

CREATE TABLE blob (
    digest TEXT NOT NULL CHECK (digest <> ''),
    size BIGINT NOT NULL,
    media_type TEXT NOT NULL CHECK (media_type <> ''),
    PRIMARY KEY (digest)
);

CREATE TABLE blob_part (
    digest TEXT NOT NULL CHECK (digest <> ''),
    number BIGINT NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (digest, number)
);

CREATE TABLE budget_entry (
    run_no BIGINT NOT NULL,
    source_id TEXT NOT NULL CHECK (source_id <> ''),
    kind TEXT NOT NULL CHECK (kind <> ''),
    reserved TEXT NOT NULL,
    settled TEXT,
    state TEXT NOT NULL CHECK (state <> ''),
    body TEXT DEFAULT '{}' NOT NULL,
    PRIMARY KEY (run_no, source_id, kind)
);

CREATE TABLE event (
    run_no BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    event_id TEXT NOT NULL CHECK (event_id <> ''),
    kind TEXT NOT NULL CHECK (kind <> ''),
    version BIGINT NOT NULL,
    fence BIGINT NOT NULL,
    at BIGINT NOT NULL,
    body TEXT DEFAULT '{}' NOT NULL,
    UNIQUE (run_no, seq),
    CHECK (seq > 0 AND version > 0)
);

CREATE TABLE inbox (
    number INTEGER NOT NULL,
    run_no BIGINT NOT NULL,
    message_id TEXT NOT NULL CHECK (message_id <> ''),
    kind TEXT NOT NULL CHECK (kind <> ''),
    body TEXT DEFAULT '{}' NOT NULL,
    at BIGINT NOT NULL,
    applied_seq BIGINT,
    PRIMARY KEY (number),
    UNIQUE (run_no, message_id)
);

CREATE INDEX inbox_pending ON inbox (run_no, number) WHERE applied_seq IS NULL;

CREATE TABLE process (
    run_no BIGINT NOT NULL,
    process_id TEXT NOT NULL CHECK (process_id <> ''),
    host TEXT NOT NULL CHECK (host <> ''),
    pid BIGINT NOT NULL,
    start_time TEXT,
    boot_id TEXT,
    state TEXT NOT NULL CHECK (state <> ''),
    body TEXT DEFAULT '{}' NOT NULL,
    PRIMARY KEY (run_no, process_id)
);

CREATE TABLE run (
    run_no INTEGER NOT NULL,
    run_id TEXT NOT NULL CHECK (run_id <> ''),
    task_id TEXT,
    parent_run_id TEXT,
    parent_action_id TEXT,
    state TEXT NOT NULL CHECK (state <> ''),
    version BIGINT DEFAULT 0 NOT NULL,
    fence BIGINT DEFAULT 0 NOT NULL,
    owner TEXT,
    lease_until BIGINT,
    config_digest TEXT DEFAULT '' NOT NULL,
    permission_epoch BIGINT DEFAULT 0 NOT NULL,
    cancel_seq BIGINT,
    body TEXT DEFAULT '{}' NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (run_no),
    UNIQUE (run_id),
    CHECK (state IN ('ready', 'running', 'waiting', 'verifying', 'finishing', 'suspended', 'stopped', 'done', 'failed', 'cancelled')),
    CHECK (version >= 0 AND fence >= 0),
    CHECK ((owner IS NULL) = (lease_until IS NULL))
);

CREATE INDEX run_by_parent ON run (parent_run_id) WHERE parent_run_id IS NOT NULL;

CREATE INDEX run_open ON run (state) WHERE state NOT IN ('stopped', 'done', 'failed', 'cancelled');

CREATE TABLE schema_version (
    version BIGINT NOT NULL,
    PRIMARY KEY (version)
);

CREATE TABLE snapshot (
    run_no BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    version TEXT NOT NULL CHECK (version <> ''),
    body TEXT DEFAULT '{}' NOT NULL,
    PRIMARY KEY (run_no, seq)
);

CREATE TABLE task (
    task_id TEXT NOT NULL CHECK (task_id <> ''),
    goal TEXT DEFAULT '' NOT NULL,
    scope TEXT DEFAULT '{}' NOT NULL,
    acceptance TEXT DEFAULT '{}' NOT NULL,
    body TEXT DEFAULT '{}' NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (task_id)
);

CREATE TABLE wait (
    run_no BIGINT NOT NULL,
    wait_id TEXT NOT NULL CHECK (wait_id <> ''),
    action_id TEXT,
    kind TEXT NOT NULL CHECK (kind <> ''),
    state TEXT NOT NULL CHECK (state <> ''),
    due_at BIGINT,
    subject_digest TEXT,
    body TEXT DEFAULT '{}' NOT NULL,
    PRIMARY KEY (run_no, wait_id)
);

CREATE INDEX wait_due ON wait (due_at) WHERE state = 'open' AND due_at IS NOT NULL;

CREATE TABLE workspace (
    run_no BIGINT NOT NULL,
    workspace_id TEXT NOT NULL CHECK (workspace_id <> ''),
    kind TEXT NOT NULL CHECK (kind <> ''),
    revision TEXT,
    state TEXT NOT NULL CHECK (state <> ''),
    body TEXT DEFAULT '{}' NOT NULL,
    PRIMARY KEY (run_no, workspace_id)
);

CREATE TRIGGER event_update BEFORE UPDATE ON event
BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;

CREATE TRIGGER event_delete BEFORE DELETE ON event
BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;

INSERT INTO schema_version (version) VALUES (1);
