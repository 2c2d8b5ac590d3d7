-- Version 7, the oldest that can be migrated. Stores of this version exist, so this
-- file never changes: a change is a new file, 0008.sql and so on (migrate.go).
--
-- A NULL is something that did not happen or is not known.
--
-- SQLite takes any word for a type, so these are PostgreSQL's. What is left of
-- SQLite's own, PostgreSQL gets otherwise (postgres.go). TIMESTAMPTZ is in SQLite
-- text in RFC 3339 with milliseconds, UTC.

CREATE TABLE sink (
  id         TEXT NOT NULL PRIMARY KEY,
  created_at TIMESTAMPTZ NOT NULL
) WITHOUT ROWID;

CREATE TABLE evaluations (
  id          TEXT NOT NULL PRIMARY KEY,
  name        TEXT NOT NULL,
  plan        TEXT NOT NULL, -- JSON of eval.Evaluation
  settings    TEXT NOT NULL, -- JSON of record.Settings
  created_at  TIMESTAMPTZ,
  finished_at TIMESTAMPTZ
);

CREATE TABLE phases (
  evaluation TEXT    NOT NULL,
  phase      BIGINT NOT NULL,
  kind       TEXT    NOT NULL,
  runs       BIGINT NOT NULL,
  choice     TEXT, -- JSON of plan.Choice: what it compares, chosen from results
  PRIMARY KEY (evaluation, phase)
) WITHOUT ROWID;

CREATE TABLE documents (
  hash TEXT NOT NULL PRIMARY KEY,
  text BYTEA NOT NULL -- zstd
);

-- Without a rowid, so that rows lie in the order in which exports read them.
CREATE TABLE runs (
  evaluation  TEXT    NOT NULL,
  phase       BIGINT NOT NULL,
  index_      BIGINT NOT NULL,
  generation  BIGINT NOT NULL,
  kind        TEXT    NOT NULL,
  name        TEXT    NOT NULL, -- a listed run's own id
  dimension   TEXT    NOT NULL, -- of a panel
  state       TEXT    NOT NULL,
  queue       TEXT    NOT NULL,
  judge       TEXT    NOT NULL,
  model       TEXT    NOT NULL,
  answered_by TEXT    NOT NULL,
  item        TEXT    NOT NULL,
  doc_id_1    TEXT    NOT NULL,
  doc_id_2    TEXT    NOT NULL,
  candidate_1 TEXT    NOT NULL,
  candidate_2 TEXT    NOT NULL,
  trial       BIGINT NOT NULL,
  class       TEXT    NOT NULL,
  error       TEXT    NOT NULL,
  attempts    BIGINT NOT NULL,
  started_at  TIMESTAMPTZ,
  ended_at    TIMESTAMPTZ,
  worker      TEXT    NOT NULL,
  rate_limit_waits     BIGINT NOT NULL, -- of the run
  rate_limit_fallbacks BIGINT NOT NULL,
  context_fallbacks    BIGINT NOT NULL,
  PRIMARY KEY (evaluation, phase, index_)
) WITHOUT ROWID;

-- For searches: runs in the order of their ends, of an item, with a document, and
-- those that did not succeed.
CREATE INDEX runs_by_end ON runs (evaluation, ended_at, phase, index_);
CREATE INDEX runs_by_item ON runs (evaluation, item, phase, index_) WHERE item <> '';
CREATE INDEX runs_by_first ON runs (evaluation, doc_id_1, phase, index_);
CREATE INDEX runs_by_second ON runs (evaluation, doc_id_2, phase, index_) WHERE doc_id_2 <> '';
CREATE INDEX runs_by_state ON runs (evaluation, state, phase, index_) WHERE state <> 'succeeded';
CREATE INDEX runs_by_class ON runs (evaluation, class, phase, index_) WHERE class <> '';
CREATE INDEX runs_unfit_by_end ON runs (evaluation, ended_at, phase, index_) WHERE state <> 'succeeded';

-- For the pace: when the first of a phase began. Partial, so that PostgreSQL does not take
-- it for the key while it has no statistics.
CREATE INDEX runs_by_start ON runs (evaluation, phase, started_at) WHERE started_at IS NOT NULL;

-- text comes after everything that is summed: sums then never read it.
CREATE TABLE calls (
  evaluation       TEXT    NOT NULL,
  id               TEXT    NOT NULL,
  phase            BIGINT NOT NULL,
  index_           BIGINT NOT NULL,
  generation       BIGINT NOT NULL,
  stage            TEXT    NOT NULL,
  model            TEXT    NOT NULL,
  attempt          BIGINT NOT NULL,
  asked_at         TIMESTAMPTZ,
  started_at       TIMESTAMPTZ,
  ended_at         TIMESTAMPTZ,
  bound_by         TEXT    NOT NULL,
  status           BIGINT NOT NULL,
  class            TEXT    NOT NULL,
  error            TEXT    NOT NULL,
  may_be_billed    BOOLEAN NOT NULL,
  request_id       TEXT    NOT NULL,
  input_tokens     BIGINT,
  output_tokens    BIGINT,
  cached_tokens    BIGINT,
  reasoning_tokens BIGINT,
  cost_usd         DOUBLE PRECISION,
  most_usd         DOUBLE PRECISION, -- what the call may have cost, where its cost is not known
  price            TEXT, -- JSON, by which the cost was computed
  key              TEXT    NOT NULL, -- the same of calls that ask the same; empty: none
  cached           BOOLEAN NOT NULL, -- answered with what such a call was answered before
  text             TEXT    NOT NULL,
  finish           TEXT    NOT NULL,
  grounding        TEXT, -- JSON, of searches that the answer shows
  reasoning        TEXT    NOT NULL,
  worker           TEXT    NOT NULL,
  PRIMARY KEY (evaluation, id)
);

CREATE INDEX calls_by_run ON calls (evaluation, phase, index_);
CREATE INDEX calls_by_key ON calls (key) WHERE key <> '';

-- What the rows of runs and calls add up to, at any time: written with them. A sum
-- that rows were taken out of may be 0. What providers report has no bound.
CREATE TABLE run_totals (
  evaluation  TEXT   NOT NULL,
  phase       BIGINT NOT NULL,
  state       TEXT   NOT NULL,
  class       TEXT   NOT NULL,
  model       TEXT   NOT NULL,
  answered_by TEXT   NOT NULL,
  runs                 BIGINT NOT NULL,
  rate_limit_waits     BIGINT NOT NULL,
  rate_limit_fallbacks BIGINT NOT NULL,
  context_fallbacks    BIGINT NOT NULL,
  waited               BIGINT NOT NULL, -- runs with rate_limit_waits
  PRIMARY KEY (evaluation, phase, state, class, model, answered_by)
) WITHOUT ROWID;

CREATE TABLE run_minutes (
  evaluation TEXT        NOT NULL,
  phase      BIGINT      NOT NULL,
  minute     TIMESTAMPTZ NOT NULL, -- in which the runs ended
  runs       BIGINT      NOT NULL,
  PRIMARY KEY (evaluation, phase, minute)
) WITHOUT ROWID;

CREATE TABLE call_totals (
  evaluation TEXT NOT NULL,
  model      TEXT NOT NULL,
  stage      TEXT NOT NULL,
  class      TEXT NOT NULL,
  bound_by   TEXT NOT NULL,
  calls            BIGINT  NOT NULL, -- made
  from_cache       BIGINT  NOT NULL, -- answered with what a call was answered before
  input_tokens     NUMERIC NOT NULL,
  output_tokens    NUMERIC NOT NULL,
  cached_tokens    NUMERIC NOT NULL,
  reasoning_tokens NUMERIC NOT NULL,
  unreported       BIGINT  NOT NULL, -- possibly charged, without tokens
  cost_pico_usd    NUMERIC NOT NULL,
  unpriced         BIGINT  NOT NULL, -- possibly charged, without a cost
  waited_ms        BIGINT  NOT NULL, -- from asked_at to started_at
  PRIMARY KEY (evaluation, model, stage, class, bound_by)
) WITHOUT ROWID;

CREATE TABLE pairwise_results (
  evaluation    TEXT    NOT NULL,
  id            TEXT    NOT NULL,
  doc_id_1      TEXT    NOT NULL, -- shown first
  doc_id_2      TEXT    NOT NULL,
  model         TEXT    NOT NULL,
  trial         BIGINT NOT NULL,
  winner_doc_id TEXT    NOT NULL,
  reason        TEXT    NOT NULL,
  timestamp     TIMESTAMPTZ,
  item          TEXT    NOT NULL,
  order_        TEXT    NOT NULL,
  judge         TEXT    NOT NULL,
  answered_by   TEXT    NOT NULL,
  candidate_1   TEXT    NOT NULL,
  candidate_2   TEXT    NOT NULL,
  PRIMARY KEY (evaluation, id)
);

CREATE TABLE single_doc_results (
  evaluation  TEXT    NOT NULL,
  id          TEXT    NOT NULL,
  doc_id      TEXT    NOT NULL,
  model       TEXT    NOT NULL,
  trial       BIGINT NOT NULL,
  criterion   TEXT    NOT NULL,
  score       DOUBLE PRECISION    NOT NULL,
  reason      TEXT    NOT NULL,
  timestamp   TIMESTAMPTZ,
  item        TEXT    NOT NULL,
  judge       TEXT    NOT NULL,
  answered_by TEXT    NOT NULL,
  candidate   TEXT    NOT NULL,
  PRIMARY KEY (evaluation, id, criterion)
);

-- Failed runs have rows, too: without a score.
CREATE TABLE panel_results (
  evaluation   TEXT NOT NULL,
  id           TEXT NOT NULL,
  doc_id       TEXT NOT NULL,
  agent        TEXT NOT NULL,
  criterion_id TEXT NOT NULL, -- the dimension
  score        DOUBLE PRECISION,
  argument     TEXT NOT NULL,
  model        TEXT NOT NULL,
  timestamp    TIMESTAMPTZ,
  item         TEXT NOT NULL,
  answered_by  TEXT NOT NULL,
  candidate    TEXT NOT NULL,
  PRIMARY KEY (evaluation, id)
);

CREATE TABLE votes (
  evaluation    TEXT   NOT NULL,
  index_        BIGINT NOT NULL, -- by pair and then by annotator
  annotator     TEXT   NOT NULL,
  doc_id_1      TEXT   NOT NULL, -- the one that sorts first
  doc_id_2      TEXT   NOT NULL,
  winner_doc_id TEXT   NOT NULL,
  item          TEXT   NOT NULL,
  candidate_1   TEXT   NOT NULL,
  candidate_2   TEXT   NOT NULL,
  PRIMARY KEY (evaluation, index_)
) WITHOUT ROWID;

CREATE TABLE responses (
  evaluation  TEXT NOT NULL,
  id          TEXT NOT NULL,
  run_id      TEXT NOT NULL, -- the run's own
  model       TEXT NOT NULL,
  answered_by TEXT NOT NULL,
  file_a      TEXT NOT NULL, -- the instructions, or a prompt's row
  file_b      TEXT NOT NULL, -- the input; empty of a prompt
  answer      TEXT NOT NULL,
  answers     TEXT, -- JSON, of a prompt that has several
  finish      TEXT NOT NULL,
  timestamp   TIMESTAMPTZ,
  PRIMARY KEY (evaluation, id)
);

CREATE TABLE events (
  id         INTEGER PRIMARY KEY,
  evaluation TEXT NOT NULL,
  run        TEXT NOT NULL DEFAULT '', -- id of the run that it is about; empty: the evaluation
  name       TEXT NOT NULL,
  metadata   TEXT NOT NULL, -- JSON
  created_at TIMESTAMPTZ NOT NULL
);

CREATE INDEX events_by_run ON events (evaluation, run);
