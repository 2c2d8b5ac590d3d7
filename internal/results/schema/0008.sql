-- Version 8: what a call asked for and its model would not take.

ALTER TABLE calls ADD COLUMN dropped TEXT; -- JSON list of fields; NULL: none

CREATE INDEX calls_by_dropped ON calls (evaluation, model, dropped) WHERE dropped IS NOT NULL;
