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
}
