package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/evalfleet/evalfleet/internal/redisx/certs"
	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testproxy"
)

const (
	ofTenant  = "tenant-0123456789"
	ofGateway = "gateway-0123456789"
)

// gateway serves the simulator over HTTPS, as provider.example, to clients that present
// a certificate of the test's authority.
func gateway(t *testing.T) (address string, files redistest.Certificates, calls *atomic.Int64) {
	t.Helper()
	server, err := simulator.Listen("127.0.0.1:0", simulator.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	inside, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	files = redistest.NewCertificates(t)
	settings, err := certs.Files{CA: files.CA, Cert: files.Cert, Key: files.Key}.Config()
	if err != nil {
		t.Fatal(err)
	}
	settings.ClientCAs, settings.ClientAuth = settings.RootCAs, tls.RequireAndVerifyClientCert
	onward := httputil.NewSingleHostReverseProxy(inside)
	calls = new(atomic.Int64)
	at := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if r.Header.Get("X-Tenant") != ofTenant || r.Header.Get("X-Gateway") != ofGateway || r.Header.Get("Authorization") != "Bearer planted-key-012345" {
			t.Errorf("the provider got the headers %v", r.Header)
		}
		onward.ServeHTTP(w, r)
	}))
	at.TLS, at.EnableHTTP2 = settings, true
	at.StartTLS()
	t.Cleanup(at.Close)
	return at.Listener.Addr().String(), files, calls
}

// Calls go through the proxy of the environment, with the certificates and headers of
// --config, and none of the secrets is in what the run writes.
func TestRunThroughAProxy(t *testing.T) {
	t.Parallel()
	provider, files, calls := gateway(t)
	proxy := testproxy.New(t, testproxy.Config{Route: func(host string) string {
		if host != "provider.example:443" {
			t.Errorf("the proxy was asked for %s", host)
		}
		return provider
	}})
	dir := tree(t, map[string]string{
		"docs/a.md": "One.", "docs/b.md": "Two.",
		"eval.yaml": "documents: [docs/*.md]\njudges: [gateway:careful]\npairwise: {}\n",
		"fleet.yaml": fmt.Sprintf(`providers:
  gateway:
    base_url: "https://provider.example/v1"
    api_key_env: GATEWAY_KEY
    headers: {x-tenant: %s, X-Gateway: {env: GATEWAY_TOKEN}}
    ca_file: %q
    client_cert: %q
    client_key: %q
`, ofTenant, files.CA, files.Cert, files.Key),
	})
	command := []string{"run", filepath.Join(dir, "eval.yaml"), "--config", filepath.Join(dir, "fleet.yaml"), "--out-dir", filepath.Join(dir, "out")}
	env := map[string]string{"HTTPS_PROXY": "http://me:proxy-password@" + proxy.Listener.Addr().String(), "GATEWAY_KEY": "planted-key-012345"}

	code, _, stderr := evalfleet(t, env, command...)
	if code != 2 || !strings.Contains(stderr, "provider gateway needs a value for a header: set GATEWAY_TOKEN in the environment or in .env") {
		t.Fatalf("without the variable of a header: code %d\n%s", code, stderr)
	}
	env["GATEWAY_TOKEN"] = ofGateway
	code, stdout, stderr := evalfleet(t, env, command...)
	if code != 0 || calls.Load() == 0 || len(proxy.Seen()) == 0 {
		t.Fatalf("code %d, %d calls, %d tunnels\n%s", code, calls.Load(), len(proxy.Seen()), stderr)
	}
	wantNowhere(t, filepath.Join(dir, "out"), stdout+stderr, ofTenant, ofGateway, "planted-key-012345", "proxy-password")
}

// wantNowhere looks for secrets in every file below dir and in printed text.
func wantNowhere(t *testing.T, dir, printed string, secrets ...string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		for _, secret := range secrets {
			if strings.Contains(string(text), secret) {
				t.Errorf("%s has %s", path, secret)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	for _, secret := range secrets {
		if strings.Contains(printed, secret) {
			t.Errorf("printed: %s", secret)
		}
	}
}

// What is wrong with a proxy or a certificate is said before anything is called, and
// an evaluation file names neither headers nor certificates.
func TestProxyAndCertificatesThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		fleet, evaluation string
		env               map[string]string
		want              string
	}{
		{"{}", "", map[string]string{"https_proxy": "http://me:proxy-password@:x"}, `HTTPS_PROXY: not the address of a proxy; want an address such as "http://proxy.example:3128"`},
		{`{gateway: {base_url: "https://h", ca_file: nowhere.pem}}`, "", nil, "provider gateway: read the CA certificate: open "},
		{`{gateway: {base_url: "https://h", client_cert: c.pem}}`, "", nil, "providers.gateway: client_cert and client_key must both be set; give both"},
		{`{gateway: {base_url: "https://h", headers: {Host: x}}}`, "", nil, "providers.gateway.headers.Host: this header cannot be set"},
		{`{gateway: {base_url: "https://h", headers: {X-A: {envi: x}}}}`, "", nil, "providers.gateway.headers.X-A.envi: unknown key; did you mean env?"},
		{"{}", `providers: {gateway: {base_url: "https://h", headers: {X-A: {env: HOME}}}}`, nil, "providers.gateway.headers: an evaluation file has no headers; set it in the fleet's --config"},
		{"{}", `providers: {gateway: {base_url: "https://h", ca_file: x.pem}}`, nil, "providers.gateway.ca_file: an evaluation file has no ca_file; set it in the fleet's --config"},
	} {
		judge := "gateway:careful"
		if test.fleet == "{}" && test.evaluation == "" {
			judge = "simulator:careful"
		}
		dir := tree(t, map[string]string{
			"docs/a.md": "One.", "docs/b.md": "Two.",
			"eval.yaml":  "documents: [docs/*.md]\njudges: [" + judge + "]\npairwise: {}\n" + test.evaluation + "\n",
			"fleet.yaml": "providers: " + test.fleet + "\n",
		})
		code, _, stderr := evalfleet(t, test.env, "run", filepath.Join(dir, "eval.yaml"), "--config", filepath.Join(dir, "fleet.yaml"), "--out-dir", filepath.Join(dir, "out"))
		if code != 2 || !strings.Contains(stderr, test.want) || strings.Contains(stderr, "proxy-password") {
			t.Errorf("%s %s: code %d, %s\nwant %s", test.fleet, test.evaluation, code, stderr, test.want)
		}
	}
}
