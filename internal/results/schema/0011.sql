-- Version 11: what people said on the page where they vote. Their votes are read together with those of the table votes.

CREATE TABLE page_votes (
  evaluation  TEXT   NOT NULL,
  doc_id_1    TEXT   NOT NULL, -- the one that sorts first
  doc_id_2    TEXT   NOT NULL,
  annotator   TEXT   NOT NULL,
  item        TEXT   NOT NULL,
  candidate_1 TEXT   NOT NULL,
  candidate_2 TEXT   NOT NULL,
  said        TEXT   NOT NULL, -- first, second, tie or skip; empty: undone
  shown_first TEXT   NOT NULL, -- the document that was shown first, or on the left
  chosen      TEXT   NOT NULL, -- why the pair was shown: sample, contested or narrow
  note        TEXT   NOT NULL,
  voted_at    TIMESTAMPTZ NOT NULL, -- or undone
  changes     BIGINT NOT NULL, -- of this row, from 1: odd after a vote, even after it was undone
  PRIMARY KEY (evaluation, doc_id_1, doc_id_2, annotator)
) WITHOUT ROWID;
