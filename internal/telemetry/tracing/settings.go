package tracing

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/evalfleet/evalfleet/internal/machine/hostname"
	"github.com/evalfleet/evalfleet/internal/redisx/certs"
)

// The standard's variables that are read here. The SDK itself reads those for its batches and bounds (OTEL_BSP_…,
// OTEL_SPAN_…), from the process's environment.
const (
	envDisabled   = "OTEL_SDK_DISABLED"
	envExporter   = "OTEL_TRACES_EXPORTER"
	envService    = "OTEL_SERVICE_NAME"
	envResource   = "OTEL_RESOURCE_ATTRIBUTES"
	envSampler    = "OTEL_TRACES_SAMPLER"
	envSamplerArg = "OTEL_TRACES_SAMPLER_ARG"
	// These apply to all signals. Variables with TRACES_ after the prefix apply to traces only, and take precedence.
	envOTLP = "OTEL_EXPORTER_OTLP_"
)

// tracesPath is the path for traces below the endpoint of all signals.
const tracesPath = "v1/traces"

// Settings select where traces are sent, and which.
type Settings struct {
	// Proxy returns the proxy for a target, nil for none. A nil Proxy uses none.
	Proxy func(target *url.URL) (*url.URL, error)

	endpoint string
	headers  map[string]string
	timeout  time.Duration // of one request
	gzip     bool
	tls      *tls.Config // nil: the system's
	sampler  sdk.Sampler
	resource []attribute.KeyValue
}

// Read reads the settings from the environment. on is false if tracing is off: without an endpoint, or if the
// standard's variables disable it. Its error names all problems and quotes no header.
func Read(env func(name string) (value string, ok bool)) (s Settings, on bool, err error) {
	get := func(name string) string { value, _ := env(name); return strings.TrimSpace(value) }
	otlp := func(name string) string {
		if value := get(envOTLP + "TRACES_" + name); value != "" {
			return value
		}
		return get(envOTLP + name)
	}
	exporter := get(envExporter)
	if strings.EqualFold(get(envDisabled), "true") || exporter == "none" || otlp("ENDPOINT") == "" {
		return Settings{}, false, nil
	}
	var problems []error
	note := func(err error) {
		if err != nil {
			problems = append(problems, err)
		}
	}
	if exporter != "" && exporter != "otlp" {
		note(fmt.Errorf("%s: got %q, want otlp or none", envExporter, exporter))
	}
	if protocol := otlp("PROTOCOL"); protocol != "" && protocol != "http/protobuf" {
		note(fmt.Errorf("%sPROTOCOL: got %q, want http/protobuf, which collectors accept on port 4318", envOTLP, protocol))
	}
	s.endpoint, err = endpoint(get)
	note(err)
	s.headers, err = pairs(otlp("HEADERS"))
	if err != nil {
		note(fmt.Errorf("%sHEADERS: %w", envOTLP, err))
	}
	s.timeout = 10 * time.Second
	if text := otlp("TIMEOUT"); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms <= 0 {
			note(fmt.Errorf("%sTIMEOUT: got %q, want milliseconds", envOTLP, text))
		}
		s.timeout = time.Duration(ms) * time.Millisecond
	}

	switch compression := otlp("COMPRESSION"); compression {
	case "", "none":
	case "gzip":
		s.gzip = true
	default:
		note(fmt.Errorf("%sCOMPRESSION: got %q, want gzip or none", envOTLP, compression))
	}

	if files := (certs.Files{CA: otlp("CERTIFICATE"), Cert: otlp("CLIENT_CERTIFICATE"), Key: otlp("CLIENT_KEY")}); files != (certs.Files{}) {
		if s.tls, err = files.Config(); err != nil {
			note(fmt.Errorf("%sCERTIFICATE, _CLIENT_CERTIFICATE and _CLIENT_KEY: %w", envOTLP, err))
		}
	}

	s.sampler, err = sampler(get(envSampler), get(envSamplerArg))
	note(err)
	s.resource, err = resourceOf(get(envResource), get(envService))
	note(err)
	return s, true, errors.Join(problems...)
}

// endpoint returns the address to which traces are sent: the one for traces unchanged, or tracesPath below the one for
// all signals.
func endpoint(get func(string) string) (string, error) {
	name := envOTLP + "TRACES_ENDPOINT"
	text := get(name)
	all := text == ""
	if all {
		name = envOTLP + "ENDPOINT"
		text = get(name)
	}
	u, ok := hostname.ParseWeb(text)
	if !ok {
		return "", fmt.Errorf("%s: want an address such as http://collector:4318", name)
	}
	if all {
		u = u.JoinPath(tracesPath)
	}
	return u.String(), nil
}

// pairs parses "name=value,name=value", with values encoded as in URLs.
func pairs(text string) (map[string]string, error) {
	read := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		name, value, ok := strings.Cut(part, "=")
		decoded, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil {
			return nil, errors.New("want name=value, separated by commas, with values encoded as in addresses") // may hold a key
		}
		read[name] = decoded
	}
	return read, nil
}

func resourceOf(text, service string) ([]attribute.KeyValue, error) {
	read, err := pairs(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", envResource, err)
	}
	if service != "" {
		read["service.name"] = service
	}
	var said []attribute.KeyValue
	for name, value := range read {
		said = append(said, attribute.String(name, value))
	}
	return said, nil
}

// sampler returns the sampler with a standard name. Runs are sampled as a whole, by the ID of their trace, so that all
// workers decide alike.
func sampler(name, arg string) (sdk.Sampler, error) {
	switch strings.TrimPrefix(name, "parentbased_") {
	case "", "always_on":
		return sdk.ParentBased(sdk.AlwaysSample()), nil
	case "always_off":
		return sdk.ParentBased(sdk.NeverSample()), nil
	case "traceidratio":
		ratio := 1.0
		if arg != "" {
			var err error
			if ratio, err = strconv.ParseFloat(arg, 64); err != nil || !(ratio >= 0 && ratio <= 1) {
				return nil, fmt.Errorf("%s: got %q, want a share from 0 to 1", envSamplerArg, arg)
			}
		}
		return sdk.ParentBased(sdk.TraceIDRatioBased(ratio)), nil
	}
	known := []string{"always_on", "always_off", "traceidratio"}
	for _, plain := range slices.Clone(known) {
		known = append(known, "parentbased_"+plain)
	}
	return nil, fmt.Errorf("%s: got %q, want one of %s", envSampler, name, strings.Join(known, ", "))
}
