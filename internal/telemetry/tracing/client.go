package tracing

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/evalfleet/evalfleet/internal/redisx/outage"
)

// attempts is how often a batch is sent if the collector has no room for it.
const attempts = 3

// client sends batches of spans to a collector, as protobuf over HTTP. The SDK's own client depends on gRPC, which
// would add 3 MB to every worker, traced or not.
type client struct {
	settings Settings
	log      zerolog.Logger
	http     *http.Client
	over     context.Context // ends when no more batches may be sent
	abort    context.CancelFunc
	stopped  chan struct{} // closed when no more batches come

	failed atomic.Bool  // a batch could not be sent, and that was logged
	lost   atomic.Int64 // spans of such batches
}

func newClient(settings Settings, log zerolog.Logger) *client {
	pool := &http.Transport{TLSClientConfig: settings.tls, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute}
	if settings.Proxy != nil {
		pool.Proxy = func(r *http.Request) (*url.URL, error) { return settings.Proxy(r.URL) }
	}
	c := &client{settings: settings, log: log, stopped: make(chan struct{}), http: &http.Client{
		Timeout: settings.timeout, Transport: pool,
		// Redirects are not followed: the headers, which may contain a key, must not be sent elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	c.over, c.abort = context.WithCancel(context.Background())
	return c
}

// Start implements otlptrace.Client.
func (c *client) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *client) Stop(context.Context) error {
	defer close(c.stopped)
	c.http.CloseIdleConnections()
	if lost := c.lost.Load(); lost > 0 {
		c.log.Info().Int64("spans", lost).Msg("the trace collector rejected spans")
	}
	return nil
}

// UploadTraces sends a batch. A batch that cannot be sent is dropped, which is logged once and returns no error,
// because the SDK would write each error to standard error.
func (c *client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.over, cancel)()
	if err := c.upload(ctx, spans); err != nil {
		for _, of := range spans {
			for _, in := range of.GetScopeSpans() {
				c.lost.Add(int64(len(in.GetSpans())))
			}
		}
		if c.failed.CompareAndSwap(false, true) {
			c.log.Warn().Err(err).Msg("cannot send traces; dropping them until the collector answers; runs continue")
		}
	}
	return nil
}

func (c *client) upload(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// TracesData encodes to the same message as the request type: its fields are the same.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	if c.settings.gzip {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = w.Write(body) // into memory
		_ = w.Close()
		body = packed.Bytes()
	}
	for n := 1; ; n++ {
		wait, err := c.post(ctx, body)
		if err == nil || wait == 0 || n == attempts {
			return err
		}
		if outage.Pause(ctx, wait) != nil {
			return err
		}
	}
}

// post makes one attempt. wait is how long to wait before another attempt, if the collector asks for one; 0: it does
// not.
func (c *client) post(ctx context.Context, body []byte) (wait time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.settings.endpoint, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	for name, value := range c.settings.headers {
		request.Header.Set(name, value)
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	request.Header.Set("User-Agent", "evalfleet")
	if c.settings.gzip {
		request.Header.Set("Content-Encoding", "gzip")
	}
	at := request.URL.Scheme + "://" + request.URL.Host + request.URL.Path // the rest may contain a key
	response, err := c.http.Do(request)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return 0, fmt.Errorf("the collector at %s: %w", at, err)
	}
	defer response.Body.Close()

	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // so that the connection is reused
	switch response.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		wait = time.Second
		if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
			wait = time.Duration(seconds) * time.Second
		}
	}

	switch {
	case response.StatusCode/100 == 3:
		return 0, fmt.Errorf("the collector at %s redirects (%s); redirects are not followed, correct the endpoint", at, response.Status)
	case response.StatusCode/100 != 2:
		return wait, fmt.Errorf("the collector at %s answers %s", at, response.Status)
	}

	return 0, nil
}
