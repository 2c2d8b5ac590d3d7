package conformance

import (
	"errors"
	"net/http"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"google.golang.org/genai"

	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/catalog"
)

// nowhere keeps the address of the latest request and sends none.
type nowhere struct{ address string }

var errNowhere = errors.New("no request leaves this test")

// RoundTrip is that of an http.RoundTripper.
func (n *nowhere) RoundTrip(req *http.Request) (*http.Response, error) {
	n.address = req.Method + " " + req.URL.String()
	return nil, errNowhere
}

// TestBuiltInProvidersAreWhereTheSDKsSend compares the addresses to which requests
// would go without one being configured.
func TestBuiltInProvidersAreWhereTheSDKsSend(t *testing.T) {
	// The one SDK that takes its address from the environment even so.
	t.Setenv("GOOGLE_GEMINI_BASE_URL", "")
	for name, send := range map[string]func(client *http.Client) error{
		"openai-chat": func(client *http.Client) error {
			service := openai.NewChatService(openaioption.WithEnvironmentProduction(), openaioption.WithAPIKey(key), openaioption.WithMaxRetries(0), openaioption.WithHTTPClient(client))
			_, err := service.Completions.New(t.Context(), chatParams(prompt))
			return err
		},
		"openai": func(client *http.Client) error {
			service := responses.NewResponseService(openaioption.WithEnvironmentProduction(), openaioption.WithAPIKey(key), openaioption.WithMaxRetries(0), openaioption.WithHTTPClient(client))
			_, err := service.New(t.Context(), responseParams())
			return err
		},
		"anthropic": func(client *http.Client) error {
			service := anthropic.NewMessageService(anthropicoption.WithEnvironmentProduction(), anthropicoption.WithAPIKey(key), anthropicoption.WithMaxRetries(0), anthropicoption.WithHTTPClient(client))
			_, err := service.New(t.Context(), messageParams(prompt))
			return err
		},
		"google": func(client *http.Client) error {
			_, err := googleThrough(t, "", client).GenerateContent(t.Context(), "careful", genai.Text(prompt), nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var theirs, own nowhere
			if err := send(&http.Client{Transport: &theirs}); !errors.Is(err, errNowhere) {
				t.Fatal(err)
			}
			provider, err := catalog.BuiltIn()[name].Open(&http.Client{Transport: &own}, catalog.Credentials{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := provider.Call(t.Context(), complete(providers.Request{})); !errors.Is(err, errNowhere) {
				t.Fatal(err)
			}
			if own.address != theirs.address {
				t.Errorf("got %s, the SDK has %s", own.address, theirs.address)
			}
		})
	}
}
