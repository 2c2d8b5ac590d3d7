package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certificates are the paths of PEM files: the test's own certificate authority, and one certificate that it signed,
// with its key. The certificate is for 127.0.0.1, and for servers as well as clients.
type Certificates struct{ CA, Cert, Key string }

// NewCertificates creates the files in a folder of the test.
func NewCertificates(t testing.TB) Certificates {
	t.Helper()
	dir := t.TempDir()
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}

	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "test"},
		NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"redis.example", "provider.example"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	ours, theirs := newKey(t), newKey(t)
	c := Certificates{CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	writeCertificate(t, c.CA, authority, authority, &ours.PublicKey, ours)
	writeCertificate(t, c.Cert, server, authority, &theirs.PublicKey, ours)
	der, err := x509.MarshalPKCS8PrivateKey(theirs)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, c.Key, "PRIVATE KEY", der)
	return c
}

// Args returns the options of a server that uses TLS for all connections: with clients, its master and its Cluster.
// verify says whether it requires a client certificate.
func (c Certificates) Args(verify bool) []string {
	wants := "no"
	if verify {
		wants = "yes"
	}
	return []string{
		"--tls-cert-file", c.Cert, "--tls-key-file", c.Key, "--tls-ca-cert-file", c.CA,
		"--tls-auth-clients", wants, "--tls-replication", "yes", "--tls-cluster", "yes",
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writeCertificate(t testing.TB, path string, of, by *x509.Certificate, public *ecdsa.PublicKey, key *ecdsa.PrivateKey) {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, of, by, public, key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, path, "CERTIFICATE", der)
}

func writePEM(t testing.TB, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
