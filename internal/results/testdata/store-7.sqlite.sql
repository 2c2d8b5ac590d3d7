PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE sink (
  id         TEXT NOT NULL PRIMARY KEY,
  created_at TIMESTAMPTZ NOT NULL
) WITHOUT ROWID;
INSERT INTO sink VALUES('7yw5jelecud54mp6ihczalvrl3','2026-11-22T20:07:39.554Z');
CREATE TABLE evaluations (
  id          TEXT NOT NULL PRIMARY KEY,
  name        TEXT NOT NULL,
  plan        TEXT NOT NULL, -- JSON of eval.Evaluation
  settings    TEXT NOT NULL, -- JSON of record.Settings
  created_at  TIMESTAMPTZ,
  finished_at TIMESTAMPTZ
);
INSERT INTO evaluations VALUES('ev-ugubyetxl4d7','essays','{"plan_version":1,"name":"essays","items":[{"id":"q1","question":"Which is better?"}],"documents":[{"id":"a.md","item":0,"candidate":"a","hash":"b9049dba7128d81a8063762fe7a871ae","bytes":14},{"id":"b.md","item":0,"candidate":"b","hash":"3d109e1b0235e5d4deea976e035500ad","bytes":14},{"id":"c.md","item":0,"candidate":"c","hash":"5235c24517f165c0104e142f76519689","bytes":14},{"id":"d.md","item":0,"candidate":"d","hash":"dbb2678ce4e47800ca761c22671ec202","bytes":14}],"judges":[{"name":"strict","provider":"openai","model":"gpt-5-mini"}],"single":{"criteria":[{"name":"clarity"},{"name":"rigour"}],"scale":{"min":1,"max":5},"trials":1},"pairwise":{"pairs":{"mode":"all"},"order":"both","trials":1,"ties":false},"json":"auto"}','{"priority":1,"limits":null,"retry":{"max_attempts":3,"initial_delay":1000000000,"max_delay":60000000000,"jitter":500000000},"timeouts":null}','2026-01-02T03:04:05.678Z','2026-01-02T04:04:05.678Z');
CREATE TABLE phases (
  evaluation TEXT    NOT NULL,
  phase      BIGINT NOT NULL,
  kind       TEXT    NOT NULL,
  runs       BIGINT NOT NULL,
  choice     TEXT, -- JSON of plan.Choice: what it compares, chosen from results
  PRIMARY KEY (evaluation, phase)
) WITHOUT ROWID;
INSERT INTO phases VALUES('ev-ugubyetxl4d7',0,'single',4,NULL);
INSERT INTO phases VALUES('ev-ugubyetxl4d7',1,'pairwise',12,NULL);
CREATE TABLE documents (
  hash TEXT NOT NULL PRIMARY KEY,
  text BYTEA NOT NULL -- zstd
);
INSERT INTO documents VALUES('3d109e1b0235e5d4deea976e035500ad',X'28b52ffd04007100005468652074657874206f6620622e3fc16111');
INSERT INTO documents VALUES('5235c24517f165c0104e142f76519689',X'28b52ffd04007100005468652074657874206f6620632eeafb833e');
INSERT INTO documents VALUES('b9049dba7128d81a8063762fe7a871ae',X'28b52ffd04007100005468652074657874206f6620612e6416138a');
INSERT INTO documents VALUES('dbb2678ce4e47800ca761c22671ec202',X'28b52ffd04007100005468652074657874206f6620642e9d16199d');
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
INSERT INTO runs VALUES('ev-ugubyetxl4d7',0,0,0,'single','','','succeeded','openai','strict','openai:gpt-5-mini','openai:gpt-5-mini-2026','q1','a.md','','a','',1,'','',1,'2026-01-02T03:04:05.678Z','2026-01-02T03:04:06.678Z','w7k2p9qa',0,0,0);
INSERT INTO runs VALUES('ev-ugubyetxl4d7',0,1,0,'single','','','succeeded','openai','strict','openai:gpt-5-mini','openai:gpt-5-mini-2026','q1','b.md','','b','',1,'','',1,'2026-01-02T03:04:06.678Z','2026-01-02T03:04:07.678Z','w7k2p9qa',0,0,0);
INSERT INTO runs VALUES('ev-ugubyetxl4d7',1,0,0,'pairwise','','','succeeded','openai','strict','openai:gpt-5-mini','openai:gpt-5-mini-2026','q1','a.md','b.md','a','b',1,'','',1,'2026-01-02T03:04:05.678Z','2026-01-02T03:04:06.678Z','w7k2p9qa',0,0,0);
INSERT INTO runs VALUES('ev-ugubyetxl4d7',1,1,0,'pairwise','','','succeeded','openai','strict','openai:gpt-5-mini','openai:gpt-5-mini-2026','q1','b.md','a.md','b','a',1,'','',1,'2026-01-02T03:04:06.678Z','2026-01-02T03:04:07.678Z','w7k2p9qa',0,0,0);
INSERT INTO runs VALUES('ev-ugubyetxl4d7',1,2,0,'pairwise','','','succeeded','openai','strict','openai:gpt-5-mini','openai:gpt-5-mini-2026','q1','a.md','b.md','a','b',1,'','',1,'2026-01-02T03:04:07.678Z','2026-01-02T03:04:08.678Z','w7k2p9qa',0,0,0);
INSERT INTO runs VALUES('ev-ugubyetxl4d7',1,3,0,'pairwise','','','succeeded','openai','strict','openai:gpt-5-mini','openai:gpt-5-mini-2026','q1','b.md','a.md','b','a',1,'','',1,'2026-01-02T03:04:08.678Z','2026-01-02T03:04:09.678Z','w7k2p9qa',0,0,0);
INSERT INTO runs VALUES('ev-ugubyetxl4d7',1,4,0,'pairwise','','','failed','openai','strict','openai:gpt-5-mini','','q1','a.md','b.md','a','b',1,'timeout','timeout: no answer in 2m0s',1,'2026-01-02T03:04:09.678Z','2026-01-02T03:04:10.678Z','w7k2p9qa',0,0,0);
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
INSERT INTO calls VALUES('ev-ugubyetxl4d7','1.0.0-w7k2p9qa-1',1,0,0,'verdict','openai:gpt-5-mini',1,'2026-01-02T03:04:05.678Z','2026-01-02T03:04:05.678Z','2026-01-02T03:04:06.678Z','',200,'','',0,'',900,40,0,0,0.25,NULL,NULL,'',0,'{"winner_doc_id":"a.md"}','stop',NULL,'','w7k2p9qa');
INSERT INTO calls VALUES('ev-ugubyetxl4d7','1.1.0-w7k2p9qa-1',1,1,0,'verdict','openai:gpt-5-mini',1,'2026-01-02T03:04:06.678Z','2026-01-02T03:04:06.678Z','2026-01-02T03:04:07.678Z','',200,'','',0,'',900,40,0,0,0.25,NULL,NULL,'',0,'{"winner_doc_id":"a.md"}','stop',NULL,'','w7k2p9qa');
INSERT INTO calls VALUES('ev-ugubyetxl4d7','1.2.0-w7k2p9qa-1',1,2,0,'verdict','openai:gpt-5-mini',1,'2026-01-02T03:04:07.678Z','2026-01-02T03:04:07.678Z','2026-01-02T03:04:08.678Z','',200,'','',0,'',900,40,0,0,0.25,NULL,NULL,'',0,'{"winner_doc_id":"a.md"}','stop',NULL,'','w7k2p9qa');
INSERT INTO calls VALUES('ev-ugubyetxl4d7','1.3.0-w7k2p9qa-1',1,3,0,'verdict','openai:gpt-5-mini',1,'2026-01-02T03:04:08.678Z','2026-01-02T03:04:08.678Z','2026-01-02T03:04:09.678Z','',200,'','',0,'',900,40,0,0,0.25,NULL,NULL,'',0,'{"winner_doc_id":"a.md"}','stop',NULL,'','w7k2p9qa');
INSERT INTO calls VALUES('ev-ugubyetxl4d7','1.4.0-w7k2p9qa-1',1,4,0,'verdict','openai:gpt-5-mini',1,'2026-01-02T03:04:09.678Z','2026-01-02T03:04:09.678Z','2026-01-02T03:04:10.678Z','',0,'timeout','timeout: no answer in 2m0s',1,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'',0,'','',NULL,'','w7k2p9qa');
INSERT INTO calls VALUES('ev-ugubyetxl4d7','0.0.0-w7k2p9qa-1',0,0,0,'verdict','openai:gpt-5-mini',1,'2026-01-02T03:04:05.678Z','2026-01-02T03:04:05.678Z','2026-01-02T03:04:06.678Z','',200,'','',0,'',500,60,0,0,NULL,NULL,NULL,'',0,'','',NULL,'','w7k2p9qa');
INSERT INTO calls VALUES('ev-ugubyetxl4d7','0.1.0-w7k2p9qa-1',0,1,0,'verdict','openai:gpt-5-mini',1,'2026-01-02T03:04:06.678Z','2026-01-02T03:04:06.678Z','2026-01-02T03:04:07.678Z','',200,'','',0,'',500,60,0,0,NULL,NULL,NULL,'',0,'','',NULL,'','w7k2p9qa');
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
INSERT INTO run_totals VALUES('ev-ugubyetxl4d7',0,'succeeded','','openai:gpt-5-mini','openai:gpt-5-mini-2026',2,0,0,0,0);
INSERT INTO run_totals VALUES('ev-ugubyetxl4d7',1,'failed','timeout','openai:gpt-5-mini','',1,0,0,0,0);
INSERT INTO run_totals VALUES('ev-ugubyetxl4d7',1,'succeeded','','openai:gpt-5-mini','openai:gpt-5-mini-2026',4,0,0,0,0);
CREATE TABLE run_minutes (
  evaluation TEXT        NOT NULL,
  phase      BIGINT      NOT NULL,
  minute     TIMESTAMPTZ NOT NULL, -- in which the runs ended
  runs       BIGINT      NOT NULL,
  PRIMARY KEY (evaluation, phase, minute)
) WITHOUT ROWID;
INSERT INTO run_minutes VALUES('ev-ugubyetxl4d7',0,'2026-01-02T03:04:00.000Z',2);
INSERT INTO run_minutes VALUES('ev-ugubyetxl4d7',1,'2026-01-02T03:04:00.000Z',5);
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
INSERT INTO call_totals VALUES('ev-ugubyetxl4d7','openai:gpt-5-mini','verdict','','',6,0,4600,280,0,0,0,1000000000000,2,0);
INSERT INTO call_totals VALUES('ev-ugubyetxl4d7','openai:gpt-5-mini','verdict','timeout','',1,0,0,0,0,0,1,0,1,0);
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
INSERT INTO pairwise_results VALUES('ev-ugubyetxl4d7','1.0','a.md','b.md','openai:gpt-5-mini',1,'a.md','Reason 0.','2026-01-02T03:04:06.678Z','q1','forward','strict','openai:gpt-5-mini-2026','a','b');
INSERT INTO pairwise_results VALUES('ev-ugubyetxl4d7','1.1','b.md','a.md','openai:gpt-5-mini',1,'a.md','Reason 1.','2026-01-02T03:04:07.678Z','q1','reverse','strict','openai:gpt-5-mini-2026','b','a');
INSERT INTO pairwise_results VALUES('ev-ugubyetxl4d7','1.2','a.md','b.md','openai:gpt-5-mini',1,'a.md','Reason 2.','2026-01-02T03:04:08.678Z','q1','forward','strict','openai:gpt-5-mini-2026','a','b');
INSERT INTO pairwise_results VALUES('ev-ugubyetxl4d7','1.3','b.md','a.md','openai:gpt-5-mini',1,'a.md','Reason 3.','2026-01-02T03:04:09.678Z','q1','reverse','strict','openai:gpt-5-mini-2026','b','a');
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
INSERT INTO single_doc_results VALUES('ev-ugubyetxl4d7','0.0','a.md','openai:gpt-5-mini',1,'rigour',2.5,'Loose.','2026-01-02T03:04:06.678Z','q1','strict','openai:gpt-5-mini-2026','a');
INSERT INTO single_doc_results VALUES('ev-ugubyetxl4d7','0.0','a.md','openai:gpt-5-mini',1,'clarity',4.0,'Clear.','2026-01-02T03:04:06.678Z','q1','strict','openai:gpt-5-mini-2026','a');
INSERT INTO single_doc_results VALUES('ev-ugubyetxl4d7','0.1','b.md','openai:gpt-5-mini',1,'rigour',2.5,'Loose.','2026-01-02T03:04:07.678Z','q1','strict','openai:gpt-5-mini-2026','b');
INSERT INTO single_doc_results VALUES('ev-ugubyetxl4d7','0.1','b.md','openai:gpt-5-mini',1,'clarity',4.0,'Clear.','2026-01-02T03:04:07.678Z','q1','strict','openai:gpt-5-mini-2026','b');
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
CREATE INDEX runs_by_end ON runs (evaluation, ended_at, phase, index_);
CREATE INDEX runs_by_item ON runs (evaluation, item, phase, index_) WHERE item <> '';
CREATE INDEX runs_by_first ON runs (evaluation, doc_id_1, phase, index_);
CREATE INDEX runs_by_second ON runs (evaluation, doc_id_2, phase, index_) WHERE doc_id_2 <> '';
CREATE INDEX runs_by_state ON runs (evaluation, state, phase, index_) WHERE state <> 'succeeded';
CREATE INDEX runs_by_class ON runs (evaluation, class, phase, index_) WHERE class <> '';
CREATE INDEX runs_unfit_by_end ON runs (evaluation, ended_at, phase, index_) WHERE state <> 'succeeded';
CREATE INDEX runs_by_start ON runs (evaluation, phase, started_at) WHERE started_at IS NOT NULL;
CREATE INDEX calls_by_run ON calls (evaluation, phase, index_);
CREATE INDEX calls_by_key ON calls (key) WHERE key <> '';
CREATE INDEX events_by_run ON events (evaluation, run);
COMMIT;
PRAGMA application_id=1702259814; PRAGMA user_version=7;
