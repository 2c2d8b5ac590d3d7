-- Version 12: by how much a text is better, and the verdicts on a pair by criterion.

ALTER TABLE pairwise_results ADD COLUMN degree BIGINT; -- from 1; NULL: a tie, or the verdict has no degree
ALTER TABLE pairwise_results ADD COLUMN criteria TEXT; -- JSON list of verdicts by criterion; NULL: there are none
