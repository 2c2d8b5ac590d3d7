package transport

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// failure is the content of a failed request's body, in any of the vendors' forms.
type failure struct {
	codes      []string          // code, type, status and reasons, the most specific first
	number     int               // a vendor's own numeric code, beyond the statuses of HTTP; 0: none
	minimax    bool              // the number is MiniMax's, whose list differs from Zhipu's
	page       bool              // a web page, not an error of an API
	message    string            // one line
	upstream   string            // OpenRouter's copy of the message of the model's own endpoint, one line
	status     int               // a status given in the body; 0: none
	flagged    bool              // a moderation service objected to the prompt
	google     bool              // has Google's typed details
	quotas     []string          // Google's quota ids
	retryDelay time.Duration     // Google's RetryInfo
	retryAfter string            // Cloudflare's, parsed like the header
	headers    map[string]string // the upstream's, which OpenRouter repeats, too
}

// errorObject is the union of the vendors' error objects. Fields whose JSON type differs among them accept any type.
type errorObject struct {
	Message    json.RawMessage `json:"message"`
	Detail     json.RawMessage `json:"detail"`    // FastAPI, RFC 9457
	Msg        json.RawMessage `json:"msg"`       // Zhipu's gateway
	ErrorMsg   json.RawMessage `json:"error_msg"` // Baidu
	Code       json.RawMessage `json:"code"`
	ErrorCode  json.RawMessage `json:"error_code"`
	Type       json.RawMessage `json:"type"`
	Status     json.RawMessage `json:"status"`
	Param      json.RawMessage `json:"param"`
	Details    json.RawMessage `json:"details"`
	RetryAfter json.RawMessage `json:"retry_after"`
	Metadata   struct {
		Raw     json.RawMessage   `json:"raw"`
		Reasons []string          `json:"reasons"`
		Headers map[string]string `json:"headers"`
	} `json:"metadata"`
	InnerError struct {
		Code string `json:"code"`
	} `json:"innererror"` // Azure
	BaseResp struct {
		Code    int    `json:"status_code"`
		Message string `json:"status_msg"`
	} `json:"base_resp"` // MiniMax, also beside good answers
}

// parseFailure reads {"error": {…}}, {"error": "…", "code": …}, [{"error": {…}}],
// {"message": …, "code": …}, {"detail": …}, a web page and plain text.
func parseFailure(body []byte) failure {
	outer := first(body)
	var envelope struct {
		Error *json.RawMessage `json:"error"`
	}
	if json.Unmarshal(outer, &envelope) != nil {
		text := string(body)
		return failure{message: oneLine(pageTitle(text)), page: webPage.MatchString(text)}
	}
	f := parseError(outer)
	if envelope.Error == nil {
		return f
	}
	inner := parseError(*envelope.Error)
	if len(inner.codes) == 0 && inner.number == 0 { // xAI's code is beside the error
		inner.codes, inner.number = f.codes, f.number
	}
	inner.message = cmp.Or(inner.message, f.message)
	inner.status = cmp.Or(inner.status, f.status)
	inner.retryAfter = cmp.Or(inner.retryAfter, f.retryAfter)
	return inner
}

// parseError reads an error object, a list of them, or an error that is only text.
func parseError(raw json.RawMessage) failure {
	raw = first(raw)
	if text := word(raw); text != "" {
		return failure{message: oneLine(text)}
	}
	var object errorObject
	// A field of an unexpected type is lost, but not the rest.
	_ = json.Unmarshal(raw, &object)
	return object.failure()
}

// first returns the first element if raw is a list, otherwise raw.
func first(raw json.RawMessage) json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil && len(list) > 0 {
		return list[0]
	}
	return raw
}

func (o errorObject) failure() failure {
	f := failure{
		message:    cmp.Or(detail(o.Message), detail(o.Detail), word(o.Msg), word(o.ErrorMsg), o.BaseResp.Message),
		number:     o.BaseResp.Code,
		minimax:    o.BaseResp.Code != 0,
		flagged:    len(o.Metadata.Reasons) > 0,
		upstream:   oneLine(word(o.Metadata.Raw)),
		headers:    o.Metadata.Headers,
		retryAfter: word(o.RetryAfter),
	}
	f.addCode(o.InnerError.Code)
	for _, raw := range []json.RawMessage{o.Code, o.ErrorCode, o.Type, o.Status} {
		code := word(raw)
		if n, err := strconv.Atoi(code); err == nil {
			switch {
			case n >= 400 && n < 600:
				f.status = n
			case n >= 1000 && f.number == 0:
				f.number = n
			}
			continue
		}
		f.addCode(code)
	}

	f.addDetails(o.Details)
	if param := word(o.Param); param != "" && !strings.Contains(f.message, param) {
		f.message += " (" + param + ")"
	}
	f.message = oneLine(f.message)
	return f
}

// addCode adds a code, unless it is the address of a problem's description (RFC 9457).
func (f *failure) addCode(code string) {
	if code != "" && !strings.Contains(code, "://") {
		f.codes = append(f.codes, code)
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

// words returns all of the failure's texts. OpenRouter's own message is often only "Provider returned error".
func (f failure) words() string {
	return strings.Trim(f.message+": "+f.upstream, ": ")
}

// has reports whether any of the codes is among those given, in lower case.
func (f failure) has(codes ...string) bool {
	return slices.ContainsFunc(f.codes, func(have string) bool {
		return slices.Contains(codes, strings.ToLower(have))
	})
}

// hasPart reports whether a part of any code is the one given, in lower case.
func (f failure) hasPart(part string) bool {
	return slices.ContainsFunc(f.codes, func(have string) bool {
		return strings.Contains(strings.ToLower(have), part)
	})
}

// detail returns the text of a detail: a string, or FastAPI's list with the location and message of each problem, which
// Mistral puts into an object. The request's input, which the list repeats, is left out.
func detail(raw json.RawMessage) string {
	var object struct {
		Detail json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(raw, &object) == nil {
		raw = object.Detail
	}
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

// word returns a JSON string's text, a number's digits, and "" for other values.
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

// webPage matches a text that begins like a web page, perhaps after comments.
var webPage = regexp.MustCompile(`(?is)^\s*(?:<\?xml[^>]*>\s*|<!--.*?-->\s*)*<(?:!doctype html|html|head|body)\b`)

var title = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)

// pageTitle returns the title of a proxy's web page, or all of another text.
func pageTitle(text string) string {
	if match := title.FindStringSubmatch(text); match != nil {
		return cmp.Or(html.UnescapeString(match[1]), text)
	}
	return text
}

// oneLine keeps a message readable in a log line or a table.
func oneLine(text string) string {
	return strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "")
}

// excerpt truncates a text for logging.
func excerpt(text string) string {
	const most = 2000
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
