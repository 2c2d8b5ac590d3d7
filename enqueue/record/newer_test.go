package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// A task of a newer version is told from one that is broken, whatever its fields have
// become, so that it is left to a worker of that version.
func TestTaskOfANewerVersion(t *testing.T) {
	t.Parallel()
	for name, payload := range map[string]string{
		"same fields":    fmt.Sprintf(`{"v":%d,"evaluation":"%s","index":17}`, TaskVersion+1, exampleID),
		"another type":   fmt.Sprintf(`{"v":%d,"evaluation":"%s","index":{"first":17,"last":20}}`, TaskVersion+1, exampleID),
		"unknown fields": fmt.Sprintf(`{"v":%d,"runs":[17,18]}`, TaskVersion+1),
	} {
		if _, err := DecodeTask([]byte(payload)); !errors.Is(err, ErrNewer) {
			t.Errorf("%s: got %v, want ErrNewer", name, err)
		}
	}
	if _, err := DecodeTask([]byte(fmt.Sprintf(`{"v":%d,"index":"x"}`, TaskVersion))); err == nil || errors.Is(err, ErrNewer) {
		t.Errorf("a broken task of this version: got %v, want an error that is not ErrNewer", err)
	}
}

// What a newer program adds to a task or to an entry of the same version is passed over.
func TestAddedFieldsArePassedOver(t *testing.T) {
	t.Parallel()
	payload, err := json.Marshal(exampleTask())
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeTask(append([]byte(`{"added":{"x":1},`), payload[1:]...))
	if again, _ := json.Marshal(got); err != nil || string(again) != string(payload) {
		t.Errorf("task: got %s, %v; want %s", again, err, payload)
	}
	values := map[string]any{EntryField: fmt.Sprint(EntryVersion), "added": "x", RunField: `{"index":17,"added":{"x":1}}`}
	if entry, err := DecodeEntry(values); err != nil || entry.Run == nil || entry.Run.Index != 17 {
		t.Errorf("entry: got %+v, %v; want run 17", entry, err)
	}
}

// An entry of a newer version is refused, not stored by halves.
func TestEntryOfANewerVersion(t *testing.T) {
	t.Parallel()
	values := map[string]any{EntryField: fmt.Sprint(EntryVersion + 1), RunField: `{"index":17}`}
	if _, err := DecodeEntry(values); err == nil || !strings.Contains(err.Error(), "collect with the program that wrote it") {
		t.Errorf("got %v, want an error that says what to collect with", err)
	}
}

// TestVersionsOfRecords: what asks for more than earlier programs know has a version that they refuse, in batches too.
func TestVersionsOfRecords(t *testing.T) {
	t.Parallel()
	for want, settings := range map[int]Settings{
		EvaluationVersion: {}, EvaluationVersionBatch: {Batch: &Batch{}}, EvaluationVersionExtended: {Extended: true, Batch: &Batch{}},
	} {
		if got := (Evaluation{Settings: settings}).Version(); got != want {
			t.Errorf("%+v: got version %d, want %d", settings, got, want)
		}
	}
}
