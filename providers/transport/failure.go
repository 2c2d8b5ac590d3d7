package transport

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// failure is what the body of a failed request says, whichever of the vendors'
// shapes it has.
type failure struct {
	codes      []string // code, type, status and reasons, lower case, the most specific first
	message    string
	status     int               // a status given in the body; 0: none
	flagged    bool              // a moderation service objected to the prompt
	google     bool              // has Google's typed details
	quotas     []string          // Google's quota ids
	retryDelay time.Duration     // Google's RetryInfo
	headers    map[string]string // OpenRouter repeats the upstream's headers in the body
}

// errorObject is the union of the vendors' error objects. Fields whose JSON type
// differs among them are read loosely.
type errorObject struct {
	Message  json.RawMessage `json:"message"`
	Code     json.RawMessage `json:"code"`
	Type     json.RawMessage `json:"type"`
	Status   json.RawMessage `json:"status"`
	Param    json.RawMessage `json:"param"`
	Details  json.RawMessage `json:"details"`
	Metadata struct {
		Raw     json.RawMessage   `json:"raw"`
		Reasons []string          `json:"reasons"`
		Headers map[string]string `json:"headers"`
	} `json:"metadata"`
	InnerError struct {
		Code string `json:"code"`
	} `json:"innererror"` // Azure
}

// parseFailure reads {"error": {…}}, {"error": "…"}, [{"error": {…}}],
// {"message": …, "code": …}, {"detail": …} and plain text.
func parseFailure(body []byte) failure {
	trimmed := bytes.TrimSpace(body)
	var list []json.RawMessage
	if json.Unmarshal(trimmed, &list) == nil && len(list) > 0 {
		trimmed = list[0]
	}
	var envelope struct {
		Error  *json.RawMessage `json:"error"`
		Detail *json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(trimmed, &envelope) != nil {
		return failure{message: excerpt(string(body))}
	}
	inner := trimmed
	switch {
	case envelope.Error != nil:
		inner = *envelope.Error
	case envelope.Detail != nil:
		return failure{message: excerpt(detail(*envelope.Detail))}
	}
	return parseError(inner)
}

// parseError reads an error object, or an error that is only text.
func parseError(raw json.RawMessage) failure {
	if text := word(raw); text != "" {
		return failure{message: excerpt(text)}
	}
	var object errorObject
	// A field of an unforeseen type costs that field, not the rest.
	_ = json.Unmarshal(raw, &object)
	return object.failure()
}

func (o errorObject) failure() failure {
	f := failure{
		message: word(o.Message),
		flagged: len(o.Metadata.Reasons) > 0,
		headers: o.Metadata.Headers,
	}
	f.addCode(o.InnerError.Code)
	for _, raw := range []json.RawMessage{o.Code, o.Type, o.Status} {
		code := word(raw)
		if n, err := strconv.Atoi(code); err == nil {
			if n >= 400 && n < 600 {
				f.status = n
			}
			continue
		}
		f.addCode(code)
	}
	f.addDetails(o.Details)
	if param := word(o.Param); param != "" && !strings.Contains(f.message, param) {
		f.message += " (" + param + ")"
	}
	if raw := word(o.Metadata.Raw); raw != "" {
		// OpenRouter's own message is only "Provider returned error".
		f.message += ": " + raw
	}
	f.message = excerpt(f.message)
	return f
}

func (f *failure) addCode(code string) {
	if code != "" {
		f.codes = append(f.codes, strings.ToLower(code))
	}
}

// addDetails reads Google's list of typed details or Anthropic's single object.
func (f *failure) addDetails(raw json.RawMessage) {
	var one struct {
		ErrorCode string `json:"error_code"`
	}
	if json.Unmarshal(raw, &one) == nil {
		f.addCode(one.ErrorCode)
		return
	}
	var many []struct {
		Type       string `json:"@type"`
		Reason     string `json:"reason"`
		RetryDelay string `json:"retryDelay"`
		Violations []struct {
			QuotaID string `json:"quotaId"`
		} `json:"violations"`
	}
	if json.Unmarshal(raw, &many) != nil {
		return
	}
	for _, d := range many {
		f.google = f.google || strings.Contains(d.Type, "google.rpc")
		f.addCode(d.Reason)
		for _, v := range d.Violations {
			f.quotas = append(f.quotas, v.QuotaID)
		}
		if delay, err := time.ParseDuration(d.RetryDelay); err == nil {
			f.retryDelay = max(f.retryDelay, delay)
		}
	}
}

// has reports whether any of the codes is among those given.
func (f failure) has(codes ...string) bool {
	for _, have := range f.codes {
		for _, want := range codes {
			if have == want {
				return true
			}
		}
	}
	return false
}

// detail is FastAPI's {"detail": …}: text, or a list with the place and words of
// each problem. What it repeats of the input is left out.
func detail(raw json.RawMessage) string {
	var problems []struct {
		Loc []any  `json:"loc"`
		Msg string `json:"msg"`
	}
	if json.Unmarshal(raw, &problems) != nil {
		return word(raw)
	}
	lines := make([]string, len(problems))
	for i, p := range problems {
		place := make([]string, len(p.Loc))
		for j, step := range p.Loc {
			place[j] = fmt.Sprint(step)
		}
		lines[i] = strings.Join(place, ".") + ": " + p.Msg
	}
	return strings.Join(lines, "; ")
}

// word is a JSON string's text, a number's digits, and nothing for the rest.
func word(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var number json.Number
	if json.Unmarshal(raw, &number) == nil {
		return number.String()
	}
	return ""
}

// excerpt keeps a message readable in a log line or a table.
func excerpt(text string) string {
	const most = 2000
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
