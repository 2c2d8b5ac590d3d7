CREATE TABLE public.call_totals (
    evaluation text NOT NULL COLLATE pg_catalog."C",
    model text NOT NULL COLLATE pg_catalog."C",
    stage text NOT NULL COLLATE pg_catalog."C",
    class text NOT NULL COLLATE pg_catalog."C",
    bound_by text NOT NULL COLLATE pg_catalog."C",
    calls bigint NOT NULL,
    from_cache bigint NOT NULL,
    input_tokens numeric NOT NULL,
    output_tokens numeric NOT NULL,
    cached_tokens numeric NOT NULL,
    reasoning_tokens numeric NOT NULL,
    unreported bigint NOT NULL,
    cost_pico_usd numeric NOT NULL,
    unpriced bigint NOT NULL,
    waited_ms bigint NOT NULL
);
CREATE TABLE public.calls (
    evaluation text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    phase bigint NOT NULL,
    index_ bigint NOT NULL,
    generation bigint NOT NULL,
    stage text NOT NULL COLLATE pg_catalog."C",
    model text NOT NULL COLLATE pg_catalog."C",
    attempt bigint NOT NULL,
    asked_at timestamp with time zone,
    started_at timestamp with time zone,
    ended_at timestamp with time zone,
    bound_by text NOT NULL COLLATE pg_catalog."C",
    status bigint NOT NULL,
    class text NOT NULL COLLATE pg_catalog."C",
    error text NOT NULL COLLATE pg_catalog."C",
    may_be_billed boolean NOT NULL,
    request_id text NOT NULL COLLATE pg_catalog."C",
    input_tokens bigint,
    output_tokens bigint,
    cached_tokens bigint,
    reasoning_tokens bigint,
    cost_usd double precision,
    most_usd double precision,
    price text COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    cached boolean NOT NULL,
    text text NOT NULL COLLATE pg_catalog."C",
    finish text NOT NULL COLLATE pg_catalog."C",
    grounding text COLLATE pg_catalog."C",
    reasoning text NOT NULL COLLATE pg_catalog."C",
    worker text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.documents (
    hash text NOT NULL COLLATE pg_catalog."C",
    text bytea NOT NULL
);
CREATE TABLE public.evaluations (
    id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    plan text NOT NULL COLLATE pg_catalog."C",
    settings text NOT NULL COLLATE pg_catalog."C",
    created_at timestamp with time zone,
    finished_at timestamp with time zone
);
CREATE TABLE public.events (
    id bigint NOT NULL,
    evaluation text NOT NULL COLLATE pg_catalog."C",
    run text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    metadata text NOT NULL COLLATE pg_catalog."C",
    created_at timestamp with time zone NOT NULL
);
ALTER TABLE public.events ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.events_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.pairwise_results (
    evaluation text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    doc_id_1 text NOT NULL COLLATE pg_catalog."C",
    doc_id_2 text NOT NULL COLLATE pg_catalog."C",
    model text NOT NULL COLLATE pg_catalog."C",
    trial bigint NOT NULL,
    winner_doc_id text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL COLLATE pg_catalog."C",
    "timestamp" timestamp with time zone,
    item text NOT NULL COLLATE pg_catalog."C",
    order_ text NOT NULL COLLATE pg_catalog."C",
    judge text NOT NULL COLLATE pg_catalog."C",
    answered_by text NOT NULL COLLATE pg_catalog."C",
    candidate_1 text NOT NULL COLLATE pg_catalog."C",
    candidate_2 text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.panel_results (
    evaluation text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    doc_id text NOT NULL COLLATE pg_catalog."C",
    agent text NOT NULL COLLATE pg_catalog."C",
    criterion_id text NOT NULL COLLATE pg_catalog."C",
    score double precision,
    argument text NOT NULL COLLATE pg_catalog."C",
    model text NOT NULL COLLATE pg_catalog."C",
    "timestamp" timestamp with time zone,
    item text NOT NULL COLLATE pg_catalog."C",
    answered_by text NOT NULL COLLATE pg_catalog."C",
    candidate text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.phases (
    evaluation text NOT NULL COLLATE pg_catalog."C",
    phase bigint NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    runs bigint NOT NULL,
    choice text COLLATE pg_catalog."C"
);
CREATE TABLE public.responses (
    evaluation text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    run_id text NOT NULL COLLATE pg_catalog."C",
    model text NOT NULL COLLATE pg_catalog."C",
    answered_by text NOT NULL COLLATE pg_catalog."C",
    file_a text NOT NULL COLLATE pg_catalog."C",
    file_b text NOT NULL COLLATE pg_catalog."C",
    answer text NOT NULL COLLATE pg_catalog."C",
    answers text COLLATE pg_catalog."C",
    finish text NOT NULL COLLATE pg_catalog."C",
    "timestamp" timestamp with time zone
);
CREATE TABLE public.run_minutes (
    evaluation text NOT NULL COLLATE pg_catalog."C",
    phase bigint NOT NULL,
    minute timestamp with time zone NOT NULL,
    runs bigint NOT NULL
);
CREATE TABLE public.run_totals (
    evaluation text NOT NULL COLLATE pg_catalog."C",
    phase bigint NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    class text NOT NULL COLLATE pg_catalog."C",
    model text NOT NULL COLLATE pg_catalog."C",
    answered_by text NOT NULL COLLATE pg_catalog."C",
    runs bigint NOT NULL,
    rate_limit_waits bigint NOT NULL,
    rate_limit_fallbacks bigint NOT NULL,
    context_fallbacks bigint NOT NULL,
    waited bigint NOT NULL
);
CREATE TABLE public.runs (
    evaluation text NOT NULL COLLATE pg_catalog."C",
    phase bigint NOT NULL,
    index_ bigint NOT NULL,
    generation bigint NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    dimension text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    judge text NOT NULL COLLATE pg_catalog."C",
    model text NOT NULL COLLATE pg_catalog."C",
    answered_by text NOT NULL COLLATE pg_catalog."C",
    item text NOT NULL COLLATE pg_catalog."C",
    doc_id_1 text NOT NULL COLLATE pg_catalog."C",
    doc_id_2 text NOT NULL COLLATE pg_catalog."C",
    candidate_1 text NOT NULL COLLATE pg_catalog."C",
    candidate_2 text NOT NULL COLLATE pg_catalog."C",
    trial bigint NOT NULL,
    class text NOT NULL COLLATE pg_catalog."C",
    error text NOT NULL COLLATE pg_catalog."C",
    attempts bigint NOT NULL,
    started_at timestamp with time zone,
    ended_at timestamp with time zone,
    worker text NOT NULL COLLATE pg_catalog."C",
    rate_limit_waits bigint NOT NULL,
    rate_limit_fallbacks bigint NOT NULL,
    context_fallbacks bigint NOT NULL
);
CREATE TABLE public.single_doc_results (
    evaluation text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    doc_id text NOT NULL COLLATE pg_catalog."C",
    model text NOT NULL COLLATE pg_catalog."C",
    trial bigint NOT NULL,
    criterion text NOT NULL COLLATE pg_catalog."C",
    score double precision NOT NULL,
    reason text NOT NULL COLLATE pg_catalog."C",
    "timestamp" timestamp with time zone,
    item text NOT NULL COLLATE pg_catalog."C",
    judge text NOT NULL COLLATE pg_catalog."C",
    answered_by text NOT NULL COLLATE pg_catalog."C",
    candidate text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.sink (
    id text NOT NULL COLLATE pg_catalog."C",
    created_at timestamp with time zone NOT NULL,
    version bigint NOT NULL
);
CREATE TABLE public.votes (
    evaluation text NOT NULL COLLATE pg_catalog."C",
    index_ bigint NOT NULL,
    annotator text NOT NULL COLLATE pg_catalog."C",
    doc_id_1 text NOT NULL COLLATE pg_catalog."C",
    doc_id_2 text NOT NULL COLLATE pg_catalog."C",
    winner_doc_id text NOT NULL COLLATE pg_catalog."C",
    item text NOT NULL COLLATE pg_catalog."C",
    candidate_1 text NOT NULL COLLATE pg_catalog."C",
    candidate_2 text NOT NULL COLLATE pg_catalog."C"
);
INSERT INTO public.call_totals VALUES ('ev-ugubyetxl4d7', 'openai:gpt-5-mini', 'verdict', '', '', 6, 0, 4600, 280, 0, 0, 0, 1000000000000, 2, 0);
INSERT INTO public.call_totals VALUES ('ev-ugubyetxl4d7', 'openai:gpt-5-mini', 'verdict', 'timeout', '', 1, 0, 0, 0, 0, 0, 1, 0, 1, 0);
INSERT INTO public.calls VALUES ('ev-ugubyetxl4d7', '1.0.0-w7k2p9qa-1', 1, 0, 0, 'verdict', 'openai:gpt-5-mini', 1, '2026-01-02 03:04:05.678+00', '2026-01-02 03:04:05.678+00', '2026-01-02 03:04:06.678+00', '', 200, '', '', false, '', 900, 40, 0, 0, 0.25, NULL, NULL, '', false, '{"winner_doc_id":"a.md"}', 'stop', NULL, '', 'w7k2p9qa');
INSERT INTO public.calls VALUES ('ev-ugubyetxl4d7', '1.1.0-w7k2p9qa-1', 1, 1, 0, 'verdict', 'openai:gpt-5-mini', 1, '2026-01-02 03:04:06.678+00', '2026-01-02 03:04:06.678+00', '2026-01-02 03:04:07.678+00', '', 200, '', '', false, '', 900, 40, 0, 0, 0.25, NULL, NULL, '', false, '{"winner_doc_id":"a.md"}', 'stop', NULL, '', 'w7k2p9qa');
INSERT INTO public.calls VALUES ('ev-ugubyetxl4d7', '1.2.0-w7k2p9qa-1', 1, 2, 0, 'verdict', 'openai:gpt-5-mini', 1, '2026-01-02 03:04:07.678+00', '2026-01-02 03:04:07.678+00', '2026-01-02 03:04:08.678+00', '', 200, '', '', false, '', 900, 40, 0, 0, 0.25, NULL, NULL, '', false, '{"winner_doc_id":"a.md"}', 'stop', NULL, '', 'w7k2p9qa');
INSERT INTO public.calls VALUES ('ev-ugubyetxl4d7', '1.3.0-w7k2p9qa-1', 1, 3, 0, 'verdict', 'openai:gpt-5-mini', 1, '2026-01-02 03:04:08.678+00', '2026-01-02 03:04:08.678+00', '2026-01-02 03:04:09.678+00', '', 200, '', '', false, '', 900, 40, 0, 0, 0.25, NULL, NULL, '', false, '{"winner_doc_id":"a.md"}', 'stop', NULL, '', 'w7k2p9qa');
INSERT INTO public.calls VALUES ('ev-ugubyetxl4d7', '1.4.0-w7k2p9qa-1', 1, 4, 0, 'verdict', 'openai:gpt-5-mini', 1, '2026-01-02 03:04:09.678+00', '2026-01-02 03:04:09.678+00', '2026-01-02 03:04:10.678+00', '', 0, 'timeout', 'timeout: no answer in 2m0s', true, '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '', false, '', '', NULL, '', 'w7k2p9qa');
INSERT INTO public.calls VALUES ('ev-ugubyetxl4d7', '0.0.0-w7k2p9qa-1', 0, 0, 0, 'verdict', 'openai:gpt-5-mini', 1, '2026-01-02 03:04:05.678+00', '2026-01-02 03:04:05.678+00', '2026-01-02 03:04:06.678+00', '', 200, '', '', false, '', 500, 60, 0, 0, NULL, NULL, NULL, '', false, '', '', NULL, '', 'w7k2p9qa');
INSERT INTO public.calls VALUES ('ev-ugubyetxl4d7', '0.1.0-w7k2p9qa-1', 0, 1, 0, 'verdict', 'openai:gpt-5-mini', 1, '2026-01-02 03:04:06.678+00', '2026-01-02 03:04:06.678+00', '2026-01-02 03:04:07.678+00', '', 200, '', '', false, '', 500, 60, 0, 0, NULL, NULL, NULL, '', false, '', '', NULL, '', 'w7k2p9qa');
INSERT INTO public.documents VALUES ('3d109e1b0235e5d4deea976e035500ad', '\x28b52ffd04007100005468652074657874206f6620622e3fc16111');
INSERT INTO public.documents VALUES ('5235c24517f165c0104e142f76519689', '\x28b52ffd04007100005468652074657874206f6620632eeafb833e');
INSERT INTO public.documents VALUES ('b9049dba7128d81a8063762fe7a871ae', '\x28b52ffd04007100005468652074657874206f6620612e6416138a');
INSERT INTO public.documents VALUES ('dbb2678ce4e47800ca761c22671ec202', '\x28b52ffd04007100005468652074657874206f6620642e9d16199d');
INSERT INTO public.evaluations VALUES ('ev-ugubyetxl4d7', 'essays', '{"plan_version":1,"name":"essays","items":[{"id":"q1","question":"Which is better?"}],"documents":[{"id":"a.md","item":0,"candidate":"a","hash":"b9049dba7128d81a8063762fe7a871ae","bytes":14},{"id":"b.md","item":0,"candidate":"b","hash":"3d109e1b0235e5d4deea976e035500ad","bytes":14},{"id":"c.md","item":0,"candidate":"c","hash":"5235c24517f165c0104e142f76519689","bytes":14},{"id":"d.md","item":0,"candidate":"d","hash":"dbb2678ce4e47800ca761c22671ec202","bytes":14}],"judges":[{"name":"strict","provider":"openai","model":"gpt-5-mini"}],"single":{"criteria":[{"name":"clarity"},{"name":"rigour"}],"scale":{"min":1,"max":5},"trials":1},"pairwise":{"pairs":{"mode":"all"},"order":"both","trials":1,"ties":false},"json":"auto"}', '{"priority":1,"limits":null,"retry":{"max_attempts":3,"initial_delay":1000000000,"max_delay":60000000000,"jitter":500000000},"timeouts":null}', '2026-01-02 03:04:05.678+00', '2026-01-02 04:04:05.678+00');
INSERT INTO public.pairwise_results VALUES ('ev-ugubyetxl4d7', '1.0', 'a.md', 'b.md', 'openai:gpt-5-mini', 1, 'a.md', 'Reason 0.', '2026-01-02 03:04:06.678+00', 'q1', 'forward', 'strict', 'openai:gpt-5-mini-2026', 'a', 'b');
INSERT INTO public.pairwise_results VALUES ('ev-ugubyetxl4d7', '1.1', 'b.md', 'a.md', 'openai:gpt-5-mini', 1, 'a.md', 'Reason 1.', '2026-01-02 03:04:07.678+00', 'q1', 'reverse', 'strict', 'openai:gpt-5-mini-2026', 'b', 'a');
INSERT INTO public.pairwise_results VALUES ('ev-ugubyetxl4d7', '1.2', 'a.md', 'b.md', 'openai:gpt-5-mini', 1, 'a.md', 'Reason 2.', '2026-01-02 03:04:08.678+00', 'q1', 'forward', 'strict', 'openai:gpt-5-mini-2026', 'a', 'b');
INSERT INTO public.pairwise_results VALUES ('ev-ugubyetxl4d7', '1.3', 'b.md', 'a.md', 'openai:gpt-5-mini', 1, 'a.md', 'Reason 3.', '2026-01-02 03:04:09.678+00', 'q1', 'reverse', 'strict', 'openai:gpt-5-mini-2026', 'b', 'a');
INSERT INTO public.phases VALUES ('ev-ugubyetxl4d7', 0, 'single', 4, NULL);
INSERT INTO public.phases VALUES ('ev-ugubyetxl4d7', 1, 'pairwise', 12, NULL);
INSERT INTO public.run_minutes VALUES ('ev-ugubyetxl4d7', 1, '2026-01-02 03:04:00+00', 5);
INSERT INTO public.run_minutes VALUES ('ev-ugubyetxl4d7', 0, '2026-01-02 03:04:00+00', 2);
INSERT INTO public.run_totals VALUES ('ev-ugubyetxl4d7', 0, 'succeeded', '', 'openai:gpt-5-mini', 'openai:gpt-5-mini-2026', 2, 0, 0, 0, 0);
INSERT INTO public.run_totals VALUES ('ev-ugubyetxl4d7', 1, 'succeeded', '', 'openai:gpt-5-mini', 'openai:gpt-5-mini-2026', 4, 0, 0, 0, 0);
INSERT INTO public.run_totals VALUES ('ev-ugubyetxl4d7', 1, 'failed', 'timeout', 'openai:gpt-5-mini', '', 1, 0, 0, 0, 0);
INSERT INTO public.runs VALUES ('ev-ugubyetxl4d7', 1, 0, 0, 'pairwise', '', '', 'succeeded', 'openai', 'strict', 'openai:gpt-5-mini', 'openai:gpt-5-mini-2026', 'q1', 'a.md', 'b.md', 'a', 'b', 1, '', '', 1, '2026-01-02 03:04:05.678+00', '2026-01-02 03:04:06.678+00', 'w7k2p9qa', 0, 0, 0);
INSERT INTO public.runs VALUES ('ev-ugubyetxl4d7', 1, 1, 0, 'pairwise', '', '', 'succeeded', 'openai', 'strict', 'openai:gpt-5-mini', 'openai:gpt-5-mini-2026', 'q1', 'b.md', 'a.md', 'b', 'a', 1, '', '', 1, '2026-01-02 03:04:06.678+00', '2026-01-02 03:04:07.678+00', 'w7k2p9qa', 0, 0, 0);
INSERT INTO public.runs VALUES ('ev-ugubyetxl4d7', 1, 2, 0, 'pairwise', '', '', 'succeeded', 'openai', 'strict', 'openai:gpt-5-mini', 'openai:gpt-5-mini-2026', 'q1', 'a.md', 'b.md', 'a', 'b', 1, '', '', 1, '2026-01-02 03:04:07.678+00', '2026-01-02 03:04:08.678+00', 'w7k2p9qa', 0, 0, 0);
INSERT INTO public.runs VALUES ('ev-ugubyetxl4d7', 1, 3, 0, 'pairwise', '', '', 'succeeded', 'openai', 'strict', 'openai:gpt-5-mini', 'openai:gpt-5-mini-2026', 'q1', 'b.md', 'a.md', 'b', 'a', 1, '', '', 1, '2026-01-02 03:04:08.678+00', '2026-01-02 03:04:09.678+00', 'w7k2p9qa', 0, 0, 0);
INSERT INTO public.runs VALUES ('ev-ugubyetxl4d7', 1, 4, 0, 'pairwise', '', '', 'failed', 'openai', 'strict', 'openai:gpt-5-mini', '', 'q1', 'a.md', 'b.md', 'a', 'b', 1, 'timeout', 'timeout: no answer in 2m0s', 1, '2026-01-02 03:04:09.678+00', '2026-01-02 03:04:10.678+00', 'w7k2p9qa', 0, 0, 0);
INSERT INTO public.runs VALUES ('ev-ugubyetxl4d7', 0, 0, 0, 'single', '', '', 'succeeded', 'openai', 'strict', 'openai:gpt-5-mini', 'openai:gpt-5-mini-2026', 'q1', 'a.md', '', 'a', '', 1, '', '', 1, '2026-01-02 03:04:05.678+00', '2026-01-02 03:04:06.678+00', 'w7k2p9qa', 0, 0, 0);
INSERT INTO public.runs VALUES ('ev-ugubyetxl4d7', 0, 1, 0, 'single', '', '', 'succeeded', 'openai', 'strict', 'openai:gpt-5-mini', 'openai:gpt-5-mini-2026', 'q1', 'b.md', '', 'b', '', 1, '', '', 1, '2026-01-02 03:04:06.678+00', '2026-01-02 03:04:07.678+00', 'w7k2p9qa', 0, 0, 0);
INSERT INTO public.single_doc_results VALUES ('ev-ugubyetxl4d7', '0.0', 'a.md', 'openai:gpt-5-mini', 1, 'rigour', 2.5, 'Loose.', '2026-01-02 03:04:06.678+00', 'q1', 'strict', 'openai:gpt-5-mini-2026', 'a');
INSERT INTO public.single_doc_results VALUES ('ev-ugubyetxl4d7', '0.0', 'a.md', 'openai:gpt-5-mini', 1, 'clarity', 4, 'Clear.', '2026-01-02 03:04:06.678+00', 'q1', 'strict', 'openai:gpt-5-mini-2026', 'a');
INSERT INTO public.single_doc_results VALUES ('ev-ugubyetxl4d7', '0.1', 'b.md', 'openai:gpt-5-mini', 1, 'rigour', 2.5, 'Loose.', '2026-01-02 03:04:07.678+00', 'q1', 'strict', 'openai:gpt-5-mini-2026', 'b');
INSERT INTO public.single_doc_results VALUES ('ev-ugubyetxl4d7', '0.1', 'b.md', 'openai:gpt-5-mini', 1, 'clarity', 4, 'Clear.', '2026-01-02 03:04:07.678+00', 'q1', 'strict', 'openai:gpt-5-mini-2026', 'b');
INSERT INTO public.sink VALUES ('tp3pkq2622222kbd4bpn4cg6po', '2026-11-22 20:07:39.606+00', 7);
SELECT pg_catalog.setval('public.events_id_seq', 1, false);
ALTER TABLE ONLY public.call_totals
    ADD CONSTRAINT call_totals_pkey PRIMARY KEY (evaluation, model, stage, class, bound_by);
ALTER TABLE ONLY public.calls
    ADD CONSTRAINT calls_pkey PRIMARY KEY (evaluation, id);
ALTER TABLE ONLY public.documents
    ADD CONSTRAINT documents_pkey PRIMARY KEY (hash);
ALTER TABLE ONLY public.evaluations
    ADD CONSTRAINT evaluations_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.pairwise_results
    ADD CONSTRAINT pairwise_results_pkey PRIMARY KEY (evaluation, id);
ALTER TABLE ONLY public.panel_results
    ADD CONSTRAINT panel_results_pkey PRIMARY KEY (evaluation, id);
ALTER TABLE ONLY public.phases
    ADD CONSTRAINT phases_pkey PRIMARY KEY (evaluation, phase);
ALTER TABLE ONLY public.responses
    ADD CONSTRAINT responses_pkey PRIMARY KEY (evaluation, id);
ALTER TABLE ONLY public.run_minutes
    ADD CONSTRAINT run_minutes_pkey PRIMARY KEY (evaluation, phase, minute);
ALTER TABLE ONLY public.run_totals
    ADD CONSTRAINT run_totals_pkey PRIMARY KEY (evaluation, phase, state, class, model, answered_by);
ALTER TABLE ONLY public.runs
    ADD CONSTRAINT runs_pkey PRIMARY KEY (evaluation, phase, index_);
ALTER TABLE ONLY public.single_doc_results
    ADD CONSTRAINT single_doc_results_pkey PRIMARY KEY (evaluation, id, criterion);
ALTER TABLE ONLY public.sink
    ADD CONSTRAINT sink_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.votes
    ADD CONSTRAINT votes_pkey PRIMARY KEY (evaluation, index_);
CREATE INDEX calls_by_key ON public.calls USING btree (key) WHERE (key <> ''::text);
CREATE INDEX calls_by_run ON public.calls USING btree (evaluation, phase, index_);
CREATE INDEX events_by_run ON public.events USING btree (evaluation, run);
CREATE INDEX runs_by_class ON public.runs USING btree (evaluation, class, phase, index_) WHERE (class <> ''::text);
CREATE INDEX runs_by_end ON public.runs USING btree (evaluation, ended_at, phase, index_);
CREATE INDEX runs_by_first ON public.runs USING btree (evaluation, doc_id_1, phase, index_);
CREATE INDEX runs_by_item ON public.runs USING btree (evaluation, item, phase, index_) WHERE (item <> ''::text);
CREATE INDEX runs_by_second ON public.runs USING btree (evaluation, doc_id_2, phase, index_) WHERE (doc_id_2 <> ''::text);
CREATE INDEX runs_by_start ON public.runs USING btree (evaluation, phase, started_at) WHERE (started_at IS NOT NULL);
CREATE INDEX runs_by_state ON public.runs USING btree (evaluation, state, phase, index_) WHERE (state <> 'succeeded'::text);
CREATE INDEX runs_unfit_by_end ON public.runs USING btree (evaluation, ended_at, phase, index_) WHERE (state <> 'succeeded'::text);
