-- Version 9: what calls wrote to the providers' prompt caches, and what these saved.

ALTER TABLE calls ADD COLUMN cache_write_tokens BIGINT; -- NULL: not reported, or recorded before version 9
ALTER TABLE calls ADD COLUMN saved_usd DOUBLE PRECISION; -- below 0: the cache cost more than it saved; NULL: unknown

ALTER TABLE call_totals ADD COLUMN cache_write_tokens NUMERIC NOT NULL DEFAULT 0;
ALTER TABLE call_totals ADD COLUMN saved_pico_usd NUMERIC NOT NULL DEFAULT 0;
