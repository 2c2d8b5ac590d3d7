package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/klauspost/compress/zstd"
)

// recording is one request that a test of a client library made, and its answer.
type recording struct {
	file     string
	index    int // in the file, from 1
	method   string
	url      string
	request  []byte
	status   int
	header   map[string]string // of the answer, lower-case names
	response []byte
}

func (r recording) name() string { return fmt.Sprintf("%s#%d", r.file, r.index) }

// recordings reads every cassette below the folder. skipped counts the files that are not cassettes.
func recordings(folder string, each func(recording)) (skipped int, err error) {
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		if !slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path))) {
			return nil
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}

		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		found, err := parse(raw)
		if err != nil {
			skipped++
			return nil
		}

		for i, r := range found {
			r.file, r.index = filepath.ToSlash(name), i+1
			each(r)
		}

		return nil
	})
	return skipped, err
}

var errNoCassette = errors.New("not a cassette")

// parse parses a cassette in a VCR format: vcrpy's, Ruby's or R's.
func parse(raw []byte) ([]recording, error) {
	if !bytes.Contains(raw, []byte("interactions")) {
		return nil, errNoCassette
	}
	var cassette struct {
		Interactions     []interaction `yaml:"interactions" json:"interactions"`
		HTTPInteractions []interaction `yaml:"http_interactions" json:"http_interactions"`
	}
	if json.Unmarshal(raw, &cassette) != nil {
		if err := yaml.Unmarshal(raw, &cassette); err != nil {
			return nil, err
		}
	}
	var found []recording
	for _, i := range append(cassette.Interactions, cassette.HTTPInteractions...) {
		found = append(found, i.recording())
	}
	if found == nil {
		return nil, errNoCassette
	}
	return found, nil
}

// interaction is a request and its answer, in the forms that the libraries write.
type interaction struct {
	Request struct {
		Method     string `yaml:"method" json:"method"`
		URI        string `yaml:"uri" json:"uri"`
		Body       any    `yaml:"body" json:"body"`
		ParsedBody any    `yaml:"parsed_body" json:"parsed_body"`
	} `yaml:"request" json:"request"`
	Response struct {
		Status     any            `yaml:"status" json:"status"`           // a number, or an object with code
		StatusCode int            `yaml:"status_code" json:"status_code"` // older vcrpy with httpx
		Headers    map[string]any `yaml:"headers" json:"headers"`
		Body       any            `yaml:"body" json:"body"`
		Content    any            `yaml:"content" json:"content"` // older vcrpy with httpx
		ParsedBody any            `yaml:"parsed_body" json:"parsed_body"`
	} `yaml:"response" json:"response"`
}

func (i interaction) recording() recording {
	r := recording{
		method: strings.ToUpper(i.Request.Method), url: i.Request.URI,
		request: body(i.Request.Body, i.Request.ParsedBody),
		status:  i.Response.StatusCode, header: map[string]string{},
	}
	status := i.Response.Status
	if object, ok := status.(map[string]any); ok {
		status = object["code"]
	}
	if code, ok := number(status); ok {
		r.status = int(code)
	}
	for name, values := range i.Response.Headers {
		if list, ok := values.([]any); ok && len(list) > 0 {
			values = list[0]
		}
		r.header[strings.ToLower(name)] = fmt.Sprint(values)
	}

	r.response = inflate(body(i.Response.Body, i.Response.ParsedBody))
	if r.response == nil {
		r.response = inflate(body(i.Response.Content, nil))
	}
	return r
}

// number converts any of the numeric types that a decoder produces; false: value is not a number.
func number(value any) (float64, bool) {
	switch n := value.(type) {
	case float64:
		return n, true
	case int:
		return float64(n), true
	case int64:
		return float64(n), true
	case uint64:
		return float64(n), true
	}
	return 0, false
}

// body returns the bytes of a body: text, bytes, an object that holds them, or the JSON value parsed from them.
func body(written, parsed any) []byte {
	if parsed != nil {
		raw, _ := json.Marshal(parsed) // plain values from YAML always encode
		return raw
	}
	switch b := written.(type) {
	case string:
		return []byte(b)
	case []byte:
		return b
	case map[string]any:
		if text, ok := b["base64_string"].(string); ok {
			raw, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
			if err == nil {
				return raw
			}
		}
		return body(b["string"], nil)
	}
	return nil
}

// inflate decompresses a body that was recorded as transferred.
func inflate(raw []byte) []byte {
	var reader io.Reader
	switch {
	case bytes.HasPrefix(raw, []byte{0x1f, 0x8b}):
		unpacked, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			return raw
		}
		reader = unpacked
	case bytes.HasPrefix(raw, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		unpacked, err := zstd.NewReader(bytes.NewReader(raw), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return raw
		}
		defer unpacked.Close()
		reader = unpacked
	default:
		return raw
	}

	unpacked, err := io.ReadAll(reader)
	if len(unpacked) == 0 && err != nil {
		return raw
	}
	return unpacked
}
