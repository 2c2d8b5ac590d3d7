package simulator

import "cmp"

// messagesWords are Anthropic's errors; their kind is the error's type.
var messagesWords = map[Failure]words{
	RateLimited: {429, "rate_limit_error", "", "This request would exceed your organization's rate limit of 50 requests per minute."},
	QuotaDaily:  {429, "rate_limit_error", "", "Number of requests has exceeded your daily rate limit."},
	QuotaBilling: {
		400, "invalid_request_error", "",
		"Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.",
	},
	SpendLimit:       {429, "rate_limit_error", "enforced_spend_limit_reached", "Your organization has reached its monthly spend limit."},
	Overloaded:       {529, "overloaded_error", "", "Overloaded"},
	Loading:          {529, "overloaded_error", "", "Overloaded"},
	ServerError:      {500, "api_error", "", "Internal server error"},
	FailedIn200:      {500, "api_error", "", "Internal server error"},
	ContextLength:    {400, "invalid_request_error", "", "prompt is too long: %d tokens > %d maximum"},
	Refused:          {400, "invalid_request_error", "", "Output blocked by content filtering policy"},
	Auth:             {401, "authentication_error", "", "invalid x-api-key"},
	keyMissing:       {401, "authentication_error", "", "x-api-key header is required"},
	ModelUnavailable: {404, "not_found_error", "", "model: %s"},
	BadRequest:       {400, "invalid_request_error", "", "messages: Input should be a valid list"},
	withoutSystem:    {400, "invalid_request_error", "", "system: system prompts are not supported by this model"},
	withoutSchema:    {400, "invalid_request_error", "", "output_config.format: structured outputs are not supported by this model"},
	searchAndJSON:    {400, "invalid_request_error", "", "output_config.format: citations are not supported with structured outputs"},
}

func (messages) problem(c *call, p problem) (status int, body any) {
	said := messagesWords[p.failure]
	object := map[string]any{"type": said.kind, "message": said.say(c, p)}
	if said.code != "" {
		object["details"] = map[string]string{"error_code": said.code}
	}
	return cmp.Or(p.status, said.status), map[string]any{"type": "error", "error": object, "request_id": c.id("req_")}
}
