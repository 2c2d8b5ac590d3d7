package answers

import "regexp"

// known is the table of shapes. The first one that fits a file counts.
var known = []*Shape{
	{
		Name: "arena-hard", Title: "arena-hard answers",
		Needs: needs("uid model messages[-1].content.answer"),
		Item:  parts("uid"), Question: all("messages[role=user].content"),
		Sides: one("model", "messages[-1].content.answer"),
	},
	{
		Name: "arena-hard-v0.1", Title: "arena-hard answers",
		Needs: needs("question_id model_id|model choices[0].turns[0].content"),
		Item:  parts("question_id"), Samples: all("choices"),
		Sides: one("model_id|model", "turns"),
	},
	{
		Name: "mt-bench", Title: "MT-bench answers",
		Needs: needs("question_id model_id|model choices[0].turns[0]"),
		Item:  parts("question_id"), Samples: all("choices"),
		Sides: one("model_id|model", "turns"),
	},
	{
		Name: "mt-bench-questions", Title: "questions of MT-bench or arena-hard", Questions: true,
		Needs: needs("question_id turns[0] !model_id !model"),
		Item:  parts("question_id"), Question: all("turns"), Reference: all("reference"), Category: all("cluster|category"),
	},
	{
		Name: "arena-hard-questions", Title: "questions of arena-hard", Questions: true,
		Needs: needs("uid prompt category !model"),
		Item:  parts("uid"), Question: all("prompt"), Category: all("subcategory|category"),
	},
	{
		Name: "alpaca_eval", Title: "alpaca_eval outputs",
		Needs:    needs("instruction output generator !item"),
		Question: all("instruction"), Prompts: true, Category: all("dataset"),
		Sides: one("generator", "output"),
	},
	{
		Name: "alpaca_eval-annotations", Title: "alpaca_eval annotations (the answers in them)",
		Needs:    needs("instruction output_1 output_2 generator_1 generator_2"),
		Question: all("instruction"), Prompts: true, Category: all("dataset"), Once: true,
		Sides: append(one("generator_1", "output_1"), one("generator_2", "output_2")...),
	},
	{
		Name: "lm-eval", Title: "lm-eval samples",
		Needs:     needs("doc_id doc resps arguments|target"),
		File:      regexp.MustCompile(`(?:^|/)samples_(?P<task>.+?)(?:_\d{4}-\d\d-\d\d[^/]*)?\.jsonl$`),
		Item:      parts("@task doc_id"),
		Question:  all("doc.question|doc.problem|doc.prompt|doc.instruction|doc.query|arguments.gen_args_0.arg_0|arguments[0][0]"),
		Reference: all("target"), Loose: true, Samples: all("resps[0]"), Sides: one("@folder", "sample"),
		Skip:       []Skip{{when("resps[0][0][0]"), "log-likelihoods, not texts"}, {when("!resps[0][0]"), "no response"}},
		Repeats:    all("filter"),
		RepeatsWhy: "the same responses under another filter",
	},
	{
		Name: "inspect", Title: "inspect log",
		Needs: needs("eval.task eval.model"), Archive: true, Rows: []string{"samples"},
		Item:     parts("^eval.task id"),
		Question: all("input[role=user].content|input"), Reference: all("target"),
		Sides: one("^eval.model|output.model", "output.completion|output.choices[0].message.content"),
		Skip:  []Skip{{when("error"), "samples that failed"}, {when("!output"), "samples without output"}},
	},
	{
		Name: "openai-evals", Title: "OpenAI evals log",
		Needs: needs("spec.completion_fns spec.eval_name"), Head: "spec",
		Item:     parts("sample_id"),
		Question: all("data.prompt[role=user].content|data.prompt"), Loose: true,
		Samples: all("data.sampled"), Sides: one("^spec.completion_fns[0]", "sample"),
		Skip:  []Skip{{when("type!=sampling"), "events that are not answers"}},
		First: true, FirstWhy: "further calls for the same sample, such as a grader's",
	},
	{
		Name: "promptfoo", Title: "promptfoo results",
		Needs: needs("results.results[0].promptIdx results.results[0].provider"), Rows: []string{"results", "results"},
		Item:     parts("testIdx"),
		Question: all("prompt.raw|prompt"), Variant: all("prompt.label"), Shared: all("vars|testCase.vars"), Loose: true,
		Sides: one("provider.label|provider.id|provider", "response.output"),
		Skip:  []Skip{{when("!response.output"), "calls without an answer"}},
	},
	{
		Name: "promptfoo-rows", Title: "promptfoo results",
		Needs:    needs("promptIdx testIdx provider response"),
		Item:     parts("testIdx"),
		Question: all("prompt.raw|prompt"), Variant: all("prompt.label"), Shared: all("vars|testCase.vars"), Loose: true,
		Sides: one("provider.label|provider.id|provider", "response.output"),
		Skip:  []Skip{{when("!response.output"), "calls without an answer"}},
	},
	{
		Name: "helm", Title: "HELM scenario state",
		Needs: needs("adapter_spec.model request_states"), Rows: []string{"request_states"},
		File: helmRun, Item: parts("@scenario instance.id"),
		Question: all("instance.input.text"), Reference: all("instance.references[tags=correct].output.text"), Loose: true,
		Samples: all("result.completions"), Sides: one("^adapter_spec.model", "text"),
		Skip: []Skip{{when("reference_index"), "scores of given answers"}, {when("!result.completions[0]"), "requests that failed"}},
	},
	{
		Name: "helm-predictions", Title: "HELM predictions",
		Needs: needs("instance_id predicted_text"), File: helmRun,
		Item: parts("@scenario instance_id"), Sides: one("@model|@folder", "predicted_text"),
		Skip: []Skip{{when("reference_index"), "scores of given answers"}},
	},
	{
		Name: "helm-instances", Title: "HELM instances", Questions: true,
		Needs: needs("input.text references id split"), File: helmRun,
		Item: parts("@scenario id"), Question: all("input.text"), Reference: all("references[tags=correct].output.text"), Loose: true,
	},
	{
		Name: "lmsys", Title: "LMSYS battles (the answers in them)",
		Needs: needs("model_a model_b conversation_a[0].role conversation_b[0].role"),
		Item:  parts("question_id|conversation_id|id"), Question: all("conversation_a[role=user].content"), Prompts: true, Once: true,
		Sides: append(one("model_a", "conversation_a[role=assistant].content"), one("model_b", "conversation_b[role=assistant].content")...),
	},
	{
		Name: "lmsys-texts", Title: "LMSYS battles (the answers in them)",
		Needs: needs("model_a model_b prompt response_a response_b"),
		Item:  parts("question_id|id"), Question: all("prompt"), Prompts: true, Once: true, JSONCells: true,
		Sides: append(one("model_a", "response_a"), one("model_b", "response_b")...),
	},
	{
		Name: "prompto", Title: "prompto answers", Prepared: true,
		Needs:    needs("prompt api model_name timestamp_sent"),
		Question: all("prompt"), Prompts: true, Loose: true,
		Sides: one("model_name", "response"),
		Skip:  []Skip{{when("!response"), "prompts without an answer"}},
	},
}

// helmRun matches the files of a HELM run, whose folder is named after its scenario and model.
var helmRun = regexp.MustCompile(`(?:^|/)(?P<scenario>[^/]*?)[,:]model=(?P<model>[^,/]+)[^/]*/[^/]+$`)
