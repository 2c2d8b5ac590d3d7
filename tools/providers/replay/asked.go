package main

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/catalog"
)

// asked holds the parameters of a recorded request about which models.yaml has facts.
type asked struct {
	Temperature     *float64 `json:"temperature"`
	ReasoningEffort string   `json:"reasoning_effort"`
	Reasoning       struct {
		Effort string `json:"effort"`
	} `json:"reasoning"`
	OutputConfig struct {
		Effort string `json:"effort"`
	} `json:"output_config"`
	Thinking struct {
		Type string `json:"type"`
	} `json:"thinking"`
	Generation struct {
		Temperature *float64 `json:"temperature"`
		Thinking    struct {
			Level string `json:"thinkingLevel"`
		} `json:"thinkingConfig"`
	} `json:"generationConfig"`
}

var unsupported = regexp.MustCompile(`(?i)unsupported|not support|does not support|is not compatible|deprecated`)

// checkTable compares the provider's reaction to a recorded request's temperature and effort with models.yaml. checked
// counts the parameters that were compared; wrong says where the vendor accepted what the table says it refuses, or the
// reverse.
func checkTable(c call, r recording) (checked int, wrong []string) {
	var a asked
	entry, known := catalog.BuiltIn()[c.provider]
	taken := r.status == http.StatusOK
	if !known || !taken && r.status != http.StatusBadRequest || json.Unmarshal(r.request, &a) != nil {
		return 0, nil
	}
	entry.Dialect = c.dialect
	caps := entry.Capabilities(c.model)
	check := func(what, word string, takes bool) {
		refused := !taken && strings.Contains(string(r.response), word) && unsupported.Match(r.response)
		if taken || refused {
			checked++
		}
		switch {
		case taken && !takes:
			wrong = append(wrong, what+" was accepted; models.yaml says that it is refused")
		case refused && takes:
			wrong = append(wrong, what+" was refused; models.yaml says that it is accepted")
		}
	}
	effort := a.ReasoningEffort + a.Reasoning.Effort + a.OutputConfig.Effort + strings.ToLower(a.Generation.Thinking.Level)
	if effort != "" {
		_, refuses := caps.Effort(&providers.Request{ReasoningEffort: effort})
		check("effort "+effort, "effort", !refuses)
	}

	// 1 is the default, which models that refuse all others take.
	if t := a.temperature(); t != nil && *t != 1 {
		takes := caps.TakesTemperatureAt(effort)
		if c.dialect == catalog.Messages {
			thinks := slices.Contains([]string{"enabled", "adaptive"}, a.Thinking.Type)
			takes = !thinks && caps.TakesTemperature(false)
		}
		check("a temperature", "temperature", takes)
	}

	return checked, wrong
}

func (a asked) temperature() *float64 {
	if a.Generation.Temperature != nil {
		return a.Generation.Temperature
	}
	return a.Temperature
}
