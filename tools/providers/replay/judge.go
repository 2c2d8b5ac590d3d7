package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/tools/providers/replay/expect"
)

// judge returns the differences between a dialect's result and the expected one.
func judge(want expect.Answer, result *providers.Result, err error) []string {
	var differences []string
	differ := func(what string, got, want any) {
		if got != want {
			differences = append(differences, fmt.Sprintf("%s: got %v, want %v", what, got, want))
		}
	}

	if want.Classes != nil {
		if err == nil {
			return []string{fmt.Sprintf("got the text %.60q, want an error of class %s", result.Text, strings.Join(want.Classes, " or "))}
		}
		if class := string(providers.ClassOf(err)); !slices.Contains(want.Classes, class) {
			differ("class", class, strings.Join(want.Classes, " or "))
		}
		var failed *providers.Error
		if errors.As(err, &failed) && failed.Used.Reported {
			differ("input", failed.Used.Input, want.Input)
			differ("output", failed.Used.Output, want.Output)
		}
		return differences
	}

	if err != nil {
		return []string{fmt.Sprintf("got %v, want an answer", err)}
	}
	differ("finish", string(result.Finish), want.Finish)
	if want.Finish != string(providers.FinishRefused) && bare(result.Text) != bare(want.Text) {
		differ("text", fmt.Sprintf("%.80q", result.Text), fmt.Sprintf("%.80q", want.Text))
	}
	differ("usage reported", result.Usage.Reported, want.Counted)
	differ("input", result.Usage.Input, want.Input)
	differ("output", result.Usage.Output, want.Output)
	differ("cached", result.Usage.Cached, want.Cached)
	differ("reasoning", result.Usage.Reasoning, want.Reasoning)
	differ("tier", result.Usage.Tier, want.Tier)
	differ("cost", dollars(result.Usage.CostUSD), dollars(want.CostUSD))
	differ("searches", result.Grounding.Searches, want.Searches)
	differ("pages", len(result.Grounding.Sources), want.Pages)
	return differences
}

// bare returns a text without white space, because dialects may add lines between blocks.
func bare(text string) string { return strings.Join(strings.Fields(text), "") }

func dollars(usd *float64) string {
	if usd == nil {
		return "none"
	}
	return fmt.Sprintf("%.9f", *usd)
}
