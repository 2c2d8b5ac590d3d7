package dial

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		at   Settings
		want redis.UniversalOptions // what is looked at
	}{
		{"one server", Settings{URL: "redis://me:secret@host:1/3?pool_size=7"}, redis.UniversalOptions{Addrs: []string{"host:1"}, DB: 3, Username: "me", Password: "secret", PoolSize: 7}},
		{"a password of its own", Settings{URL: "redis://me@host", Password: "other"}, redis.UniversalOptions{Addrs: []string{"host:6379"}, Username: "me", Password: "other"}},
		{"the URL's password has precedence", Settings{URL: "redis://:secret@host", Password: "other"}, redis.UniversalOptions{Addrs: []string{"host:6379"}, Password: "secret"}},
		{"a socket", Settings{URL: "unix:///run/redis.sock?db=2"}, redis.UniversalOptions{Addrs: []string{"/run/redis.sock"}, DB: 2}},
		{"Sentinels", Settings{URL: "redis+sentinel://me:secret@a,b:7,[::1]:8/mymaster/4?sentinel_username=s&sentinel_password=t&pool_size=7"}, redis.UniversalOptions{
			Addrs: []string{"a:26379", "b:7", "[::1]:8"}, MasterName: "mymaster", DB: 4, Username: "me", Password: "secret", SentinelUsername: "s", SentinelPassword: "t", PoolSize: 7,
		}},
		{"Sentinels with passwords of their own", Settings{URL: "redis+sentinel://a/m", Password: "p", SentinelPassword: "q"}, redis.UniversalOptions{
			Addrs: []string{"a:26379"}, MasterName: "m", Password: "p", SentinelPassword: "q",
		}},
		{"a Cluster", Settings{URL: "redis+cluster://me:secret@a,b:7?pool_size=7"}, redis.UniversalOptions{Addrs: []string{"a:6379", "b:7"}, Username: "me", Password: "secret", PoolSize: 7}},
		{"a Cluster's only database", Settings{URL: "redis+cluster://a/0"}, redis.UniversalOptions{Addrs: []string{"a:6379"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, err := Parse(tt.at)
			if err != nil {
				t.Fatal(err)
			}
			if tt.want.PoolSize == 0 {
				tt.want.PoolSize = PoolSize
			}
			tt.want.DialerRetries = 1 // go-redis tries the command again
			var got redis.UniversalOptions
			switch {
			case a.watched != nil:
				o := a.watched
				got = redis.UniversalOptions{
					Addrs: o.SentinelAddrs, MasterName: o.MasterName, DB: o.DB, Username: o.Username, Password: o.Password,
					SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword, PoolSize: o.PoolSize, DialerRetries: o.DialerRetries,
				}
			case a.cluster != nil:
				got = redis.UniversalOptions{
					Addrs: a.cluster.Addrs, Username: a.cluster.Username, Password: a.cluster.Password, PoolSize: a.cluster.PoolSize,
					DialerRetries: a.cluster.DialerRetries,
				}
			default:
				o := a.one
				got = redis.UniversalOptions{
					Addrs: []string{o.Addr}, DB: o.DB, Username: o.Username, Password: o.Password, PoolSize: o.PoolSize, DialerRetries: o.DialerRetries,
				}
			}
			if diff := cmp.Diff(tt.want, got, cmp.FilterPath(func(p cmp.Path) bool {
				return strings.HasSuffix(p.String(), "Dialer") || strings.Contains(p.String(), "Push") || strings.Contains(p.String(), "ClientSide")
			}, cmp.Ignore())); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"host:6379":                           "unknown form",
		"http://host":                         "unknown form",
		"redis+ring://a,b":                    "unknown form",
		"redis://a,b":                         "several hosts",
		"redis://:hunter2@host:port":          "invalid host or port",
		"redis://:hunter2@host?pool=1":        "unexpected option: pool",
		"redis+sentinel://:hunter2@a,b":       "the path is the master's name",
		"redis+sentinel://:hunter2@a/m/x":     `database "x" is not a number`,
		"redis+sentinel://:hunter2@a,/m":      "a host is missing",
		"redis+cluster://:hunter2@a/1":        "a Cluster has no numbered databases",
		"redis+cluster://:hunter2@a?pool=1":   "unexpected option: pool",
		"redis+sentinel://:hunter2@a/m?%zz=1": "invalid option",
	} {
		_, err := Parse(Settings{URL: url})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Parse(%s): %v, want %q and no password", url, err, want)
		}
	}
	for _, address := range []string{"rediss://host", "rediss+sentinel://a/m"} { // of a Cluster it is no option
		if _, err := Parse(Settings{URL: address + "?skip_verify=true"}); err == nil || !strings.Contains(err.Error(), "skip_verify is not allowed") {
			t.Errorf("Parse(%s?skip_verify=true): %v, want it refused", address, err)
		}
	}
	for want, s := range map[string]Settings{
		"does not use TLS":                 {URL: "redis://host", CA: empty},
		"contains no certificate":          {URL: "rediss://host", CA: empty},
		"no such file":                     {URL: "rediss+cluster://host", CA: empty + "x"},
		"a client certificate needs a key": {URL: "rediss+sentinel://host/m", Cert: empty},
		"client certificate ":              {URL: "rediss://host", Cert: empty, Key: empty},
	} {
		if _, err := Parse(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%+v): %v, want %q", s, err, want)
		}
	}
}

// TestNoPartOfAPasswordIsShown: characters that an address reserves may be in a password
// that someone forgot to encode. Neither the address nor the error shows a part of it.
func TestNoPartOfAPasswordIsShown(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"redis://:hun/ter2@host:1/0", "redis://me:hun#ter2@host", "redis://me:hun?ter2@host/1", "redis://:hun/ter2/@host,other",
		"redis://:hun@ter2@host:port", "redis://:hun%ter2@host", "redis://:hun ter2@host", "redis://:hunter2", "redis://:hunter2/0",
		"redis://me:hunter2/0", "rediss+sentinel://:hun/ter2@a,b:7/m", "redis+sentinel://me:hun#ter2@a/m?sentinel_password=ter/2@#hun",
		"redis+sentinel://a/m?db=1&sentinel_password=hun#ter2", "redis+cluster://:hun?ter2@a:1,b", "redis+cluster://:[hunter2@a", "unix://:hun#ter2@/run/redis.sock",
		"http://:hun/ter2@host", "redis://:\x01hunter2@host",
		"host.redis.cache.windows.net:6380,password=hunter2=,ssl=True,abortConnect=False", "host:6380, Password = hun,ter2,ssl=true",
		"host=h port=6379 password=hunter2", "host=h password='hun ter2' db=1", "password: hunter2", `{"host": "h", "password": "hun@ter2"}`,
		"Endpoint=h;AccessKey=hunter2;", "redis://h:6380,password=hunter2,ssl=True", "redis://h?password=hun&ter2&db=1",
		"rediss://host:6380,password=hun/ter2=", "h:6380,pwd=hunter2",
	} {
		_, err := Parse(Settings{URL: address})
		if shown := Redact(address) + " " + fmt.Sprint(err); strings.Contains(shown, "hun") || strings.Contains(shown, "ter2") || strings.Contains(shown, "ter/2") {
			t.Errorf("%s is shown as %s", address, shown)
		}
		if !strings.Contains(address, "://") && !strings.Contains(fmt.Sprint(err), "://") {
			t.Errorf("%s: %v, want the form of a URL", address, err)
		}
		if err == nil && strings.ContainsAny(address[strings.Index(address, "://")+3:], "/?#") && !strings.Contains(address, "unix") && !strings.Contains(address, "_password") && !strings.Contains(address, "?password") {
			t.Errorf("%s is taken for an address", address)
		}
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"redis://host/1":                                               "redis://host/1",
		"redis://:a@b@host/1":                                          "redis://:xxxxx@host/1",
		"redis+cluster://me:a:b@h,i?pool_size=1":                       "redis+cluster://me:xxxxx@h,i?pool_size=1",
		"redis+sentinel://h/m?sentinel_password=a&password=b&db=1":     "redis+sentinel://h/m?sentinel_password=xxxxx",
		"redis://auth-store:6379":                                      "redis://auth-store:6379",
		"redis://me@host":                                              "redis://me@host",
		"rediss+sentinel://me:a@h:1,i:2/m/3?sentinel_username=sentry1": "rediss+sentinel://me:xxxxx@h:1,i:2/m/3?sentinel_username=sentry1",
	} {
		if got := Redact(address); got != want {
			t.Errorf("Redact(%s) = %s, want %s", address, got, want)
		}
	}
}

func TestCheckNamespace(t *testing.T) {
	t.Parallel()
	for name, good := range map[string]bool{"ef": true, "team-b.2_x": true, "": false, "a:b": false, "a{b": false, "a*": false, "asynq": false, strings.Repeat("a", 65): false} {
		if err := CheckNamespace(name); (err == nil) != good {
			t.Errorf("CheckNamespace(%q): %v", name, err)
		}
	}
}

// ask opens what settings name and examines it.
func ask(t *testing.T, s Settings, namespace string) (unwise []string, err error) {
	t.Helper()
	a, err := Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	client := a.Open(namespace, 0)
	defer client.Close()
	if strings.HasSuffix(t.Name(), "/TLS_where_there_is_none") { // it waits until the time is up
		return Examine(t.Context(), client, namespace, Controller)
	}
	return examine(t.Context(), client, namespace, Controller, 2*time.Minute)
}

// TestExamineOneServer: what is wrong with a server is said in a sentence that
// tells what to do.
func TestExamineOneServer(t *testing.T) {
	t.Parallel()
	ours, others := redistest.NewCertificates(t), redistest.NewCertificates(t)
	secure := redistest.NewTCP(t, ours.Args(false)...)
	wary := redistest.NewTCP(t, ours.Args(true)...)
	plain := redistest.NewTCP(t)
	client := plain.Client()
	for user, rights := range map[string]string{
		"full":      Rights("ef", Controller),
		"other":     Rights("team-b", Controller),
		"readless":  Rights("ef", Controller) + " -hget -zcard",
		"keyless":   strings.ReplaceAll(Rights("ef", Controller), "~rate:{ef}:*", ""),
		"muted":     strings.ReplaceAll(Rights("ef", Controller), "&{ef}:*", ""),
		"deaf":      Rights("ef", Controller) + " -subscribe",
		"blind":     Rights("ef", Controller) + " -info",
		"undecided": Rights("ef", Controller) + " -multi",
	} {
		args := []any{"acl", "setuser", user, "reset", "on", ">pw"}
		for word := range strings.FieldsSeq(rights) {
			args = append(args, word)
		}
		if err := client.Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("user %s: %v", user, err)
		}
	}
	as := func(user string) Settings { return Settings{URL: "redis://" + user + ":pw@" + plain.Address()} }
	replica := redistest.NewTCP(t, "--replicaof", strings.ReplaceAll(plain.Address(), ":", " "))
	locked := redistest.NewTCP(t)
	for _, user := range [][]any{{"me", "on", ">pw", "~*", "&*", "+@all"}, {"default", ">pw"}} {
		if err := locked.Client().Do(t.Context(), append([]any{"acl", "setuser"}, user...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name string
		at   Settings
		want string // in the error; empty: it can be used
	}{
		{"good", Settings{URL: plain.URL()}, ""},
		{"least rights", as("full"), ""},
		{"commands lacking", as("readless"), "its user lacks rights: +hget +zcard; grant those that docs/redis.md lists: ACL SETUSER <user> ~ef:*"},
		{"keys lacking", as("keyless"), "its user lacks rights: ~rate:{ef}:*;"},
		{"channels lacking", as("muted"), "its user lacks rights: &{ef}:*;"},
		{"no subscriptions", as("deaf"), "its user lacks rights: +subscribe;"},
		{"no INFO", as("blind"), "its user lacks rights: +info;"},
		{"no transactions", as("undecided"), "+multi"},
		{"rights for another namespace", as("other"), "~asynq:* ~ef:* ~rate:{ef}:* ~{ef}:*"},
		{"wrong password", Settings{URL: "redis://full:no@" + plain.Address()}, "refuses the password: "},
		{"no such user", Settings{URL: "redis://nobody:no@" + plain.Address()}, "refuses the password: "},
		{"no password", Settings{URL: "redis://" + locked.Address()}, "refuses the password: "},
		{"a password of its own", Settings{URL: "redis://me@" + locked.Address(), Password: "pw"}, ""},
		{"a replica", Settings{URL: replica.URL()}, "this is a replica, which accepts no writes: use its master " + plain.Address()},
		{"keys thrown away", Settings{URL: redistest.NewTCP(t, "--maxmemory-policy", "allkeys-lru").URL()}, "its maxmemory-policy is allkeys-lru"},
		{"no server there", Settings{URL: "redis://127.0.0.1:1"}, "is unreachable: "},
		{"no such host", Settings{URL: "redis://none.invalid"}, "is unreachable: "},
		{"no socket", Settings{URL: "unix:///none"}, "is unreachable: "},
		{"TLS", Settings{URL: secure.URL(), CA: ours.CA}, ""},
		{"TLS with a certificate", Settings{URL: wary.URL(), CA: ours.CA, Cert: ours.Cert, Key: ours.Key}, ""},
		{"TLS without a certificate", Settings{URL: wary.URL(), CA: ours.CA}, "set --redis-cert and --redis-key"},
		{"an unknown authority", Settings{URL: secure.URL()}, "set the CA certificate with --redis-ca"},
		{"another authority", Settings{URL: secure.URL(), CA: others.CA}, "set the CA certificate with --redis-ca"},
		{"another name", Settings{URL: secure.URL(), CA: ours.CA, ServerName: "other.example"}, "--redis-server-name"},
		{"the name of the certificate", Settings{URL: secure.URL(), CA: ours.CA, ServerName: "redis.example"}, ""},
		{"TLS where there is none", Settings{URL: "rediss://" + plain.Address()}, "does not answer the TLS handshake: "},
		{"no TLS where there is", Settings{URL: "redis://" + secure.Address()}, "if this port uses TLS"},
		{"a Sentinel's form", Settings{URL: "redis+sentinel://" + plain.Address() + "/mymaster"}, "this is not a Sentinel: "},
		{"a Cluster's form", Settings{URL: "redis+cluster://" + plain.Address()}, "this is not a Cluster: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name == "TLS where there is none" { // which waits for the handshake, 10 s
				testrun.Slow(t)
			}
			t.Parallel()
			_, err := ask(t, tt.at, "ef")
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v\nwant in it %q", err, tt.want)
			}
			if want := tt.want == "is unreachable: "; Starting(err) != want {
				t.Errorf("%v: may this Redis be starting? got %t, want %t", err, !want, want)
			}
		})
	}
	if _, err := ask(t, as("other"), "team-b"); err != nil {
		t.Errorf("the user of another namespace: %v", err)
	}
	unwise, err := ask(t, Settings{URL: redistest.NewTCP(t, "--maxmemory", "64mb").URL()}, "ef")
	if err != nil || len(unwise) != 2 || !strings.Contains(unwise[0], "only 64 MB") || !strings.Contains(unwise[1], "appendonly yes") {
		t.Errorf("of a small server without persistence: %q, %v", unwise, err)
	}
	if unwise, err := ask(t, Settings{URL: redistest.NewTCP(t, "--appendonly", "yes").URL()}, "ef"); err != nil || len(unwise) > 0 {
		t.Errorf("of a good server: %q, %v", unwise, err)
	}
}

// A Redis that reads its file back refuses all commands for a while, and has not started yet.
func TestExamineWhileRedisLoads(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	// Loading takes 25 s, unless it is hurried.
	server := redistest.NewTCP(t, "--key-load-delay", "10000", "--loading-process-events-interval-bytes", "1024")
	client := server.Client()
	pipe := client.Pipeline()
	for i := range 2500 {
		pipe.Set(t.Context(), fmt.Sprintf("weight-%d", i), strings.Repeat("x", 100), 0)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := client.Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	loading := make(chan string, 1)
	go func() {
		defer close(loading)
		for err := error(startingError{}); Starting(err); {
			if _, err = ask(t, Settings{URL: server.URL()}, "ef"); redis.IsLoadingError(err) {
				loading <- err.Error()
				if err := client.ConfigSet(t.Context(), "key-load-delay", "0").Err(); err != nil {
					t.Errorf("hurry the server: %v", err)
				}
				return
			}
		}
	}()
	server.Start()
	if said := <-loading; !strings.HasPrefix(said, "loads its data: LOADING") {
		t.Errorf("%q, want that it loads its data", said)
	}
}

func TestExamineSentinels(t *testing.T) {
	testrun.Slow(t)
	t.Parallel()
	w := redistest.NewWatched(t)
	if unwise, err := ask(t, Settings{URL: w.URL("")}, "ef"); err != nil || len(unwise) > 0 {
		t.Errorf("%q, %v", unwise, err)
	}
	_, err := ask(t, Settings{URL: strings.Replace(w.URL(""), "mymaster", "other", 1)}, "ef")
	if err == nil || !strings.Contains(err.Error(), "the Sentinels know no master of this name") {
		t.Errorf("another master: %v", err)
	}
	_, err = ask(t, Settings{URL: w.Sentinels[0].URL()}, "ef")
	if err == nil || !strings.Contains(err.Error(), "this is a Sentinel: write redis+sentinel://") {
		t.Errorf("a Sentinel as a server: %v", err)
	}
}

func TestExamineCluster(t *testing.T) {
	t.Parallel()
	c := redistest.NewCluster(t, false)
	if _, err := ask(t, Settings{URL: c.URL("")}, "ef"); err != nil {
		t.Error(err)
	}
	_, err := ask(t, Settings{URL: c.Masters[0].URL()}, "ef")
	if err == nil || !strings.Contains(err.Error(), "this is one server of a Cluster") {
		t.Errorf("one server of it: %v", err)
	}
	if err := c.Masters[1].Client().ConfigSet(context.Background(), "maxmemory-policy", "volatile-lru").Err(); err != nil {
		t.Fatal(err)
	}
	_, err = ask(t, Settings{URL: c.URL("")}, "ef")
	if err == nil || !strings.Contains(err.Error(), "its master "+c.Masters[1].Address()+": its maxmemory-policy is volatile-lru") {
		t.Errorf("one that throws keys away: %v", err)
	}
	if err := c.Masters[1].Client().ConfigSet(context.Background(), "maxmemory-policy", "noeviction").Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.Masters[0].Client().Do(context.Background(), "cluster", "delslots", 7).Err(); err != nil {
		t.Fatal(err)
	}
	_, err = ask(t, Settings{URL: c.URL("")}, "ef")
	if err == nil || !strings.Contains(err.Error(), "the Cluster is incomplete") || !Starting(err) {
		t.Errorf("one that lacks a slot: %v", err)
	}
}
