-- Version 10: the account of the provider at which a call was made.

ALTER TABLE calls ADD COLUMN account TEXT NOT NULL DEFAULT ''; -- empty: the provider has one only
