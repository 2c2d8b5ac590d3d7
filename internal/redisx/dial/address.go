// Package dial opens clients to a fleet's Redis: one server, a master that Sentinels watch, or a
// Cluster; over TLS, as a user with few rights. It explains in a sentence what is wrong with a
// Redis that cannot be used.
//
// It does not start a Redis, and knows neither flags nor the environment.
package dial

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/redisx/certs"
)

// Forms describes the addresses that Parse accepts.
const Forms = "redis://[user:password@]host[:port][/db], unix://path, " +
	"redis+sentinel://[user:password@]host[:port],…/master[/db] or redis+cluster://[user:password@]host[:port],…; " +
	"rediss… instead of redis… for TLS"

// Settings says where a fleet's Redis is and how to connect to it.
type Settings struct {
	// URL has one of Forms. Its query takes go-redis's options, such as pool_size=20, and with
	// Sentinel also sentinel_username and sentinel_password.
	URL string
	// Password and SentinelPassword apply if the URL has none.
	Password, SentinelPassword string
	// PasswordFile is a file with the password that applies instead of Password. Each new
	// connection reads it again: a password may change, or be valid for a short time.
	PasswordFile string
	// CA, Cert and Key are PEM files. CA verifies the servers' certificates in place of the
	// system's authorities; Cert and Key are the client's own certificate. ServerName is the name
	// expected in a server's certificate, instead of its host.
	CA, Cert, Key, ServerName string
}

// Address is the parsed address of a Redis. One of its fields is set.
type Address struct {
	one     *redis.Options
	watched *redis.FailoverOptions
	cluster *redis.ClusterOptions
}

// PoolSize is the maximum number of connections of a process to a server, in addition to its
// subscriptions, unless the URL says otherwise. go-redis's own default grows with the machine's
// cores, but a server's maxclients does not.
const PoolSize = 32

// dialsOnce is the number of attempts to open a connection. go-redis tries a command that fails up to four times, and
// by default would each time dial five times: where packets are dropped, a process waited 100 s for one command before
// it could end.
const dialsOnce = 1

// Parse reads settings. Its errors contain no password.
func Parse(s Settings) (*Address, error) {
	s.URL = strings.TrimSpace(s.URL) // the file that it comes from may end with a line break
	where, err := split(s.URL)
	if err != nil {
		return nil, err
	}

	a := new(Address)
	var secure **tls.Config
	switch where.form {
	case "", "unix":
		if len(where.hosts) > 1 {
			return nil, errors.New("several hosts need the form of a Cluster or Sentinels: want " + Forms)
		}
		if a.one, err = redis.ParseURL(s.URL); err == nil {
			a.one.CredentialsProviderContext = s.credentials(a.one.Username, a.one.Password)
			a.one.Password = cmp.Or(a.one.Password, s.Password)
			a.one.PoolSize = cmp.Or(a.one.PoolSize, PoolSize)
			a.one.DialerRetries = dialsOnce
			secure = &a.one.TLSConfig
		}
	case "sentinel":
		if a.watched, err = where.sentinel(s); err == nil {
			a.watched.PoolSize = cmp.Or(a.watched.PoolSize, PoolSize)
			a.watched.DialerRetries = dialsOnce
			secure = &a.watched.TLSConfig
		}
	case "cluster":
		if a.cluster, err = where.ofCluster(s); err == nil {
			a.cluster.PoolSize = cmp.Or(a.cluster.PoolSize, PoolSize)
			a.cluster.DialerRetries = dialsOnce
			secure = &a.cluster.TLSConfig
		}
	}

	switch {
	case err != nil && keyed.MatchString(s.URL): // go-redis quotes the options, and so parts of the password
		return nil, errors.New("invalid option in the URL: write the password as redis://:PASSWORD@host; " + encoded)
	case err != nil:
		return nil, withoutURL(err)
	}

	if *secure == nil && (s.CA != "" || s.Cert != "" || s.Key != "" || s.ServerName != "") {
		return nil, errors.New("a certificate is set, but the URL does not use TLS: begin it with rediss")
	}
	if *secure != nil && (*secure).InsecureSkipVerify {
		return nil, errors.New("skip_verify is not allowed: any server in between could read the password; set the CA " +
			"certificate instead (--redis-ca)")
	}
	if *secure != nil {
		if where.form != "" && s.ServerName == "" {
			(*secure).ServerName = "" // each server has its own name
		}
		return a, s.certify(*secure)
	}
	return a, nil
}

// place is a parsed URL; package url supports no lists of hosts.
type place struct {
	form           string // sentinel, cluster, unix, or empty: one server
	scheme         string // redis or rediss
	user, password string
	hosts          []string
	path           []string
	query          url.Values
}

var schemes = regexp.MustCompile(`^(rediss?)(?:\+(sentinel|cluster))?$`)

func split(address string) (*place, error) {
	scheme, rest, ok := strings.Cut(address, "://")
	known := schemes.FindStringSubmatch(scheme)
	if keyed.MatchString(address) && !ok {
		return nil, errors.New("this is the connection string of another client: write rediss://:PASSWORD@host:6380 " +
			"(without TLS redis://:PASSWORD@host:6379), or omit the password and set --redis-password-file; " + encoded)
	}
	if !ok || known == nil && scheme != "unix" {
		return nil, errors.New("unknown form: want " + Forms)
	}

	end := endOfHosts(rest)
	if strings.Contains(rest, "#") || strings.Contains(rest[end:], "@") && strings.Contains(rest[:end], ":") {
		return nil, errors.New("invalid address; " + encoded)
	}
	if scheme == "unix" {
		return &place{form: "unix"}, nil
	}
	userinfo, list := "", rest[:end]
	if at := strings.LastIndex(list, "@"); at >= 0 {
		userinfo, list = list[:at+1], list[at+1:]
	}
	parsed, err := url.Parse("redis://" + userinfo + "host" + rest[end:])
	if err != nil {
		return nil, withoutURL(err)
	}

	query, err := url.ParseQuery(parsed.RawQuery)
	if err != nil {
		return nil, errors.New("invalid option after the question mark; " + encoded)
	}
	password, _ := parsed.User.Password()
	return &place{
		form: known[2], scheme: known[1], user: parsed.User.Username(), password: password, hosts: strings.Split(list, ","),
		path: strings.FieldsFunc(parsed.Path, func(r rune) bool { return r == '/' }), query: query,
	}, nil
}

// options returns the URL in the form in which go-redis takes hosts, path and options: all hosts
// but the first are options. port is the default.
func (p *place) options(port, path string) (string, error) {
	for i, host := range p.hosts {
		if host == "" {
			return "", errors.New("a host is missing: want " + Forms)
		}
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), port)
		}
		if p.hosts[i] = host; i > 0 {
			p.query.Add("addr", host)
		}
	}
	return p.scheme + "://" + p.hosts[0] + path + "?" + p.query.Encode(), nil
}

func (p *place) sentinel(s Settings) (*redis.FailoverOptions, error) {
	if len(p.path) < 1 || len(p.path) > 2 {
		return nil, errors.New("with Sentinel, the path is the master's name, then the database unless it is 0: " +
			"redis+sentinel://host,host/mymaster")
	}

	if len(p.path) == 2 {
		if _, err := strconv.Atoi(p.path[1]); err != nil {
			return nil, fmt.Errorf("database %q is not a number", p.path[1])
		}
	}

	user, password := p.query.Get("sentinel_username"), p.query.Get("sentinel_password")
	p.query.Del("sentinel_username")
	p.query.Del("sentinel_password")
	address, err := p.options("26379", "/"+strings.Join(p.path[1:], ""))
	if err != nil {
		return nil, err
	}

	o, err := redis.ParseFailoverURL(address)
	if err != nil {
		return nil, err
	}
	o.MasterName = p.path[0]
	o.CredentialsProviderContext = s.credentials(p.user, p.password)
	o.Username, o.Password = p.user, cmp.Or(p.password, s.Password)
	o.SentinelUsername, o.SentinelPassword = user, cmp.Or(password, s.SentinelPassword)
	return o, nil
}

func (p *place) ofCluster(s Settings) (*redis.ClusterOptions, error) {
	if len(p.path) > 1 || len(p.path) == 1 && p.path[0] != "0" {
		return nil, errors.New("a Cluster has no numbered databases: separate fleets by namespace")
	}
	address, err := p.options("6379", "")
	if err != nil {
		return nil, err
	}
	o, err := redis.ParseClusterURL(address)
	if err != nil {
		return nil, err
	}
	o.CredentialsProviderContext = s.credentials(p.user, p.password)
	o.Username, o.Password = p.user, cmp.Or(p.password, s.Password)
	return o, nil
}

// certify sets the certificates that a connection trusts and presents.
func (s Settings) certify(c *tls.Config) error {
	c.MinVersion = tls.VersionTLS12
	if s.ServerName != "" {
		c.ServerName = s.ServerName
	}
	own, err := certs.Files{CA: s.CA, Cert: s.Cert, Key: s.Key}.Config()
	if err != nil {
		return err
	}
	c.RootCAs, c.Certificates = own.RootCAs, own.Certificates
	return nil
}

// errInvalid replaces the error about an address that cannot be parsed. The error of package url
// quotes parts of the address, which may contain a password.
var errInvalid = errors.New("invalid host or port; " + encoded)

const encoded = "percent-encode special characters in user, password and options: %2F for /, %3F for ?, %23 for #, %40 for @"

// withoutURL returns a parser's error without the address that it quotes.
func withoutURL(err error) error {
	var parsing *url.Error
	if errors.As(err, &parsing) {
		return errInvalid
	}
	return err
}

// keyed matches a password in the forms key=value and key:value. URLs have these in their queries,
// and the connection strings of other clients between commas, spaces and semicolons.
var keyed = regexp.MustCompile(`(?is)((?:password|passwd|pwd)["']?\s*[=:]|(?:auth|secret|token|(?:access|account|primary)_?key)\s*=).*`)

// Redact hides the passwords in an address. If special characters are not encoded, it hides too
// much rather than too little: it shows nothing after the name of a password.
func Redact(address string) string {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		scheme, rest = "", address
	} else {
		scheme += "://"
	}
	rest = keyed.ReplaceAllString(rest, "${1}xxxxx")
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		if user, _, has := strings.Cut(rest[:at], ":"); has {
			return scheme + user + ":xxxxx" + rest[at:]
		}
		return scheme + rest
	}
	end := endOfHosts(rest)
	hosts := strings.Split(rest[:end], ",")
	for i, host := range hosts { // a password without a host after it looks like a port
		name, port, has := strings.Cut(host, ":")
		if _, err := strconv.ParseUint(port, 10, 16); has && !strings.HasPrefix(host, "[") && (name == "" || err != nil) {
			hosts[i] = name + ":xxxxx"
		}
	}
	return scheme + strings.Join(hosts, ",") + rest[end:]
}

// endOfHosts returns the position where users and hosts end in the part after a scheme.
func endOfHosts(rest string) int {
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		return end
	}
	return len(rest)
}

// String returns the servers, without passwords.
func (a *Address) String() string {
	switch {
	case a.watched != nil:
		return fmt.Sprintf("%s of Sentinels %s", a.watched.MasterName, strings.Join(a.watched.SentinelAddrs, ","))
	case a.cluster != nil:
		return strings.Join(a.cluster.Addrs, ",")
	}
	return a.one.Addr
}
