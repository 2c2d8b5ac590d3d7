package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// answers asks for a page under a name and returns the status.
func answers(t *testing.T, client *http.Client, url, host string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = host
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// pagesOfARun is a folder with results.
func pagesOfARun(t *testing.T, more ...string) string {
	t.Helper()
	dir := tree(t, runFiles(append([]string{"eval.yaml", "provider: simulator\nmodel: careful\ngrounding: off\nreasoning: off\nruns: [{file_a: a.md, file_b: b.md}]\n"}, more...)...))
	if code := launch(t, dir, "run", "eval.yaml", "--out-dir", "out").wait(); code != 0 {
		t.Fatalf("run ended with %d", code)
	}
	return dir
}

// A foreign site's name that points to the machine of the pages reads nothing, whatever
// address they listen on.
func TestPagesAnswerToNoForeignName(t *testing.T) {
	t.Parallel()
	dir := pagesOfARun(t)
	for _, listen := range []string{"127.0.0.1:0", "0.0.0.0:0"} {
		ui := launch(t, dir, "ui", "out", "--listen", listen, "--allowed-hosts", "evals.example,other.example")
		url := strings.NewReplacer("[::]", "127.0.0.1", "0.0.0.0", "127.0.0.1").Replace(ui.line())
		for host, want := range map[string]int{"evil.example": 403, "localhost:8080": 200, "10.0.0.5:8080": 200, "evals.example": 200, "other.example:8080": 200} {
			if got := answers(t, http.DefaultClient, url, host); got != want {
				t.Errorf("on %s, Host %s answers %d, want %d", listen, host, got, want)
			}
		}
	}
}

// With a certificate, the pages are served over https alone.
func TestPagesOverTLS(t *testing.T) {
	t.Parallel()
	sample := httptest.NewUnstartedServer(nil)
	sample.StartTLS()
	defer sample.Close()
	certificate := sample.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := pagesOfARun(t,
		"cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})),
		"key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
	ui := launch(t, dir, "ui", "out", "--listen", "127.0.0.1:0", "--tls-cert", "cert.pem", "--tls-key", "key.pem")
	url := ui.line()
	pool := x509.NewCertPool()
	pool.AddCert(sample.Certificate())
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	if got := answers(t, client, url, ""); !strings.HasPrefix(url, "https://") || got != http.StatusOK {
		t.Errorf("%s answers %d", url, got)
	}
	if got := answers(t, http.DefaultClient, strings.Replace(url, "https", "http", 1), ""); got == http.StatusOK {
		t.Error("the pages are served without TLS, too")
	}
	if p := launch(t, dir, "ui", "out", "--tls-cert", filepath.Join(dir, "cert.pem")); p.wait() != int(exitUsage) || !strings.Contains(p.stderr.String(), "--tls-key") {
		t.Error("a certificate without a key is taken")
	}
}
