-- Version 13: how probable each verdict on a pair was to the judge.

ALTER TABLE pairwise_results ADD COLUMN p_doc_1 DOUBLE PRECISION; -- that doc_id_1 is better; NULL: not known, as of the others
ALTER TABLE pairwise_results ADD COLUMN p_tie DOUBLE PRECISION;
ALTER TABLE pairwise_results ADD COLUMN p_doc_2 DOUBLE PRECISION; -- the sum of the three is 1
