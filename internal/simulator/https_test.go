package simulator

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// Over HTTPS, clients have the choice of the protocol, and calls count as over HTTP.
func TestListenTLSSpeaksBothProtocols(t *testing.T) {
	t.Parallel()
	server, err := ListenTLS("127.0.0.1:0", Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(server.Certificate) {
		t.Fatalf("not a certificate: %s", server.Certificate)
	}
	for _, http2 := range []bool{false, true} {
		pool := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}, ForceAttemptHTTP2: http2}
		defer pool.CloseIdleConnections()
		client := &http.Client{Transport: pool}
		response, err := client.Post(server.URL+"/v1/chat/completions", "application/json",
			strings.NewReader(`{"model":"careful","messages":[{"role":"user","content":"Hello."}]}`))
		if err != nil {
			t.Fatal(err)
		}
		var answer struct{ Model string }
		err = json.NewDecoder(response.Body).Decode(&answer)
		response.Body.Close()
		if err != nil || answer.Model != "careful" || (response.ProtoMajor == 2) != http2 {
			t.Errorf("HTTP/2 %v: got %q over %s, %v", http2, answer.Model, response.Proto, err)
		}
	}
	if got := server.Stats().All.Answered; got != 2 {
		t.Errorf("%d calls answered, want 2", got)
	}
}
