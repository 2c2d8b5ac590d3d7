package providers

import "time"

// Endpoint is a provider with the key for its calls.
type Endpoint struct {
	Provider Provider
	// Prompts is the provider for evaluations of kind prompts, which are sent as written. It is the same account in the
	// dialect of their parameters. nil: Provider.
	Prompts Provider
	Key     string
	KeyEnv  string // the environment variable that Key is from, for messages; may be empty
	// Zone is where the provider's days end, for its daily quotas. nil: UTC.
	Zone *time.Location
	// Capabilities returns what models can do there; nil: nothing is known.
	Capabilities CapabilitiesOf
	// Accounts are the names of endpoints, such as openai/eu: a call is made at one of them instead of here. Empty: it is
	// made here.
	Accounts []string
	// Configured are the names of all accounts, with those that cannot be called from here.
	Configured []string
}
