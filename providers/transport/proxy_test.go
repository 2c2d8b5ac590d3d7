package transport

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/evalfleet/evalfleet/internal/testing/testproxy"
	"github.com/evalfleet/evalfleet/providers"
)

// through returns a client of a server with the given protocol, by way of a proxy.
func through(t *testing.T, p *testproxy.Proxy, protocol, user string, handler http.HandlerFunc) *Client {
	t.Helper()
	client, _ := speak(t, protocol, handler, nil)
	at, err := url.Parse(strings.Replace(p.URL, "://", "://"+user, 1))
	if err != nil {
		t.Fatal(err)
	}
	client.http.Transport.(*http.Transport).Proxy = func(*http.Request) (*url.URL, error) { return at, nil }
	return client
}

// A proxy can take longer to open its tunnel than the grant of a call is good for.
func TestNothingIsWrittenAfterASlowProxy(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"https/1.1", "https/2"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			var own lease
			var arrived atomic.Int64
			p := testproxy.New(t, testproxy.Config{Pass: func() { own.lost.Store(true) }})
			client := through(t, p, protocol, "", func(http.ResponseWriter, *http.Request) { arrived.Add(1) })
			request := post()
			request.Ready = own.check
			isRefused(t, client, request)
			if got := arrived.Load(); got != 0 || len(p.Seen()) == 0 {
				t.Errorf("%d requests arrived through %d tunnels, want none through one or more", got, len(p.Seen()))
			}
		})
	}
}

// The proxy of an https:// address sees no key, and the provider no password of the
// proxy.
func TestProxySeesNoKey(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"https/1.1", "https/2"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			p := testproxy.New(t, testproxy.Config{})
			client := through(t, p, protocol, "me:proxy-password@", func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer "+key || r.Header.Get("Proxy-Authorization") != "" {
					t.Errorf("the provider got %v", r.Header)
				}
				_, _ = io.Copy(w, r.Body)
			})
			if _, err := client.Do(t.Context(), post()); err != nil {
				t.Fatal(err)
			}
			for _, r := range p.Seen() {
				header := r.Header
				if header.Get("Authorization") != "" || !strings.HasPrefix(header.Get("Proxy-Authorization"), "Basic ") {
					t.Errorf("the proxy got %v", header)
				}
			}
			if len(p.Seen()) == 0 {
				t.Error("the proxy was not asked")
			}
		})
	}
}

func TestProxyThatRefuses(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]providers.Class{
		http.StatusProxyAuthRequired: providers.Auth,
		http.StatusForbidden:         providers.Auth,
		http.StatusBadGateway:        providers.Transient,
	} {
		p := testproxy.New(t, testproxy.Config{Status: status})
		client := through(t, p, "https/1.1", "me:proxy-password@", func(http.ResponseWriter, *http.Request) {
			t.Error("the request arrived")
		})
		_, err := client.Do(t.Context(), post())
		var failed *providers.Error
		if !errors.As(err, &failed) || failed.Class != want || failed.Status != status || failed.MayBeBilled ||
			!strings.Contains(failed.Message, "the proxy ") || strings.Contains(failed.Error(), "proxy-password") {
			t.Errorf("status %d: got %v, want class %s in the proxy's name, unbilled and without its password", status, err, want)
		}
	}
}

// Headers of the configuration are sent, and their values struck out of what comes
// back.
func TestConfiguredHeadersAreSecrets(t *testing.T) {
	t.Parallel()
	const value, credential = "tenant-0123456789", "gateway-0123456789"
	for _, status := range []int{http.StatusOK, http.StatusBadRequest} {
		server := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+key {
				t.Errorf("Authorization: got %q", r.Header.Get("Authorization"))
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"error":{"message":"`+r.Header.Get("X-Tenant")+` `+strings.TrimPrefix(r.Header.Get("X-Gateway"), "Bearer ")+`"}}`)
		})
		httpClient := NewClient(Connections{Slots: 1})
		t.Cleanup(httpClient.CloseIdleConnections)
		client, err := New(httpClient, server.URL, http.Header{"X-Tenant": {value}, "X-Gateway": {"Bearer " + credential}})
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(t.Context(), post())
		seen := ""
		var failed *providers.Error
		switch {
		case status == http.StatusOK && err == nil:
			seen = string(answer.Body)
		case errors.As(err, &failed):
			seen = failed.Error() + string(failed.Raw)
		default:
			t.Fatalf("status %d: %v", status, err)
		}
		if strings.Contains(seen, value) || strings.Contains(seen, credential) || !strings.Contains(seen, "[key] [key]") {
			t.Errorf("status %d: got %s, want both values struck out", status, seen)
		}
	}
}
