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

func TestTwoCalls(t *testing.T) {
	t.Parallel()
	both := Capabilities{JSON: JSONSchema, JSONWithSearch: true, Search: "s"}
	exclusive := Capabilities{JSON: JSONSchema, Search: "s"}
	none := Capabilities{JSON: JSONNone, Search: "s"}
	noneBeside := Capabilities{JSON: JSONNone, JSONWithSearch: true, Search: "s"}
	for _, test := range []struct {
		name string
		caps Capabilities
		want [4]bool // without a search: asked, always; with one: asked, always
	}{
		{"both in one call", both, [4]bool{false, false, false, false}},
		{"not both in one call", exclusive, [4]bool{false, false, true, true}},
		{"no structured output", none, [4]bool{false, true, true, true}},
		{"none, also beside a search", noneBeside, [4]bool{false, true, true, true}},
		{"nothing is known", Capabilities{}, [4]bool{false, false, true, true}},
	} {
		got := [4]bool{test.caps.TwoCalls(false, false), test.caps.TwoCalls(false, true), test.caps.TwoCalls(true, false), test.caps.TwoCalls(true, true)}
		if got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
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
