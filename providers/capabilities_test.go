package providers

import (
	"slices"
	"testing"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	schema := &Schema{Name: "verdict"}
	for _, test := range []struct {
		name string
		caps Capabilities
		req  Request
		ok   bool
	}{
		{"prose of an unknown model", Capabilities{}, Request{}, true},
		{"a schema alone", Capabilities{Search: "web_search"}, Request{Schema: schema}, true},
		{"a search", Capabilities{Search: "web_search"}, Request{Search: true}, true},
		{"a search that it does not have", Capabilities{JSONWithSearch: true}, Request{Search: true}, false},
		{"both in one", Capabilities{Search: "web_search", JSONWithSearch: true}, Request{Search: true, Schema: schema}, true},
		{"both, but not in one", Capabilities{Search: "web_search"}, Request{Search: true, Schema: schema}, false},
	} {
		err := test.caps.Check(&test.req)
		if (err == nil) != test.ok || !test.ok && ClassOf(err) != BadRequest {
			t.Errorf("%s: got %v, want none: %v", test.name, err, test.ok)
		}
	}
}

func TestEffort(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		caps    Capabilities
		req     Request
		want    string
		refused bool
	}{
		{"nothing is asked", Capabilities{Reasoning: ReasoningEffort}, Request{}, "", false},
		{"an unknown model", Capabilities{}, Request{ReasoningEffort: "xhigh"}, "xhigh", false},
		{"an unknown model is to reason", Capabilities{}, Request{Reason: true}, "", false},
		{"one that does not reason", Capabilities{Reasoning: ReasoningNone}, Request{ReasoningEffort: "low"}, "", true},
		{"one that does not reason is to", Capabilities{Reasoning: ReasoningNone}, Request{Reason: true}, "", false},
		{"a word that it takes", Capabilities{Reasoning: ReasoningEffort, Efforts: []string{"low", "high"}}, Request{ReasoningEffort: "low", Reason: true}, "low", false},
		{"a word that it does not take", Capabilities{Efforts: []string{"low", "high"}}, Request{ReasoningEffort: "none"}, "", true},
		{"it is to reason", Capabilities{Reasoning: ReasoningEffort}, Request{Reason: true}, "medium", false},
		{"it is to reason, and knows no medium", Capabilities{Reasoning: ReasoningEffort, Efforts: []string{"none", "xhigh", "high"}}, Request{Reason: true}, "high", false},
		{"it is to reason, and takes nothing", Capabilities{Reasoning: ReasoningEffort, Efforts: []string{"none"}}, Request{Reason: true}, "", false},
	} {
		effort, refused := test.caps.Effort(&test.req)
		if effort != test.want || refused != test.refused {
			t.Errorf("%s: got %q, refused %v, want %q, %v", test.name, effort, refused, test.want, test.refused)
		}
	}
}

func TestTakesTemperature(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		caps Capabilities
		want []bool // without and with reasoning
	}{
		{Capabilities{}, []bool{true, true}},
		{Capabilities{Sampling: SamplingNever}, []bool{false, false}},
		{Capabilities{Sampling: SamplingWithoutReasoning}, []bool{true, false}},
		{Capabilities{Sampling: SamplingWithoutReasoning, Reasoning: ReasoningNone}, []bool{true, true}},
	} {
		if got := []bool{test.caps.TakesTemperature(false), test.caps.TakesTemperature(true)}; !slices.Equal(got, test.want) {
			t.Errorf("%+v: got %v, want %v", test.caps, got, test.want)
		}
	}
}
