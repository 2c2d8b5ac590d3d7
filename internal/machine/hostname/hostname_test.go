package hostname

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// On loopback, a page of another site reads nothing through a name that leads here.
func TestOnLoopbackOnlyKnownNamesAreServed(t *testing.T) {
	t.Parallel()
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	loopback, network := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, &net.TCPAddr{IP: net.IPv4zero}
	for host, want := range map[string]int{
		"localhost:9090": 200, "LOCALHOST": 200, "127.0.0.1:9090": 200, "[::1]:9090": 200, "[::1]": 200,
		"evil.example:9090": 403, "localhost.evil.example": 403, "": 403,
	} {
		for address, want := range map[*net.TCPAddr]int{loopback: want, network: 200} {
			w := httptest.NewRecorder()
			Guard(address, ok).ServeHTTP(w, &http.Request{Method: http.MethodGet, Host: host})
			if w.Code != want {
				t.Errorf("%s asked as %q: got %d, want %d", address, host, w.Code, want)
			}
		}
	}
}
