package conformance

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"google.golang.org/genai"

	"github.com/evalfleet/evalfleet/internal/simulator"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/providers/chat"
	"github.com/evalfleet/evalfleet/providers/generate"
	"github.com/evalfleet/evalfleet/providers/messages"
	"github.com/evalfleet/evalfleet/providers/transport"
)

// batching is a vendor's SDK, as far as it is about batches.
type batching struct {
	// create begins a batch of the prompts, whose IDs are their positions: a, b, ….
	create func(prompts []string) (id string)
	// find returns the ID of the batch that our dialect has submitted under the name.
	find func(name string) (id string)
	// ended reports whether a batch has ended, and whether in the vendor's words it was cancelled.
	ended  func(id string) (ended, cancelled bool)
	cancel func(id string)
	// texts returns the answers of a batch by the IDs of its requests. What was not answered is "-".
	texts func(id string) map[string]string
}

var batchPrompts = []string{twoDocuments + "\nWhich is better?", "Say something."}

func batchID(i int) string { return string(rune('a' + i)) }

// TestSDKsAndDialectsReadEachOthersBatches has both sides create a batch of the same prompts, and both read both.
func TestSDKsAndDialectsReadEachOthersBatches(t *testing.T) {
	t.Parallel()
	quick := simulator.Span{Min: 100 * time.Millisecond, Max: 100 * time.Millisecond}
	slow := simulator.Span{Min: 4 * time.Second, Max: 4 * time.Second}
	for name, open := range batchVendors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := simulated(t, simulator.Config{Behaviour: simulator.Behaviour{BatchTime: quick}})
			sdk, ours := open(t, server.URL)
			var requests []providers.BatchRequest
			for i, prompt := range batchPrompts {
				requests = append(requests, providers.BatchRequest{ID: batchID(i), Request: &providers.Request{
					Model: "careful", MaxOutputTokens: 2000, Messages: []providers.Message{{Role: providers.User, Content: prompt}},
				}})
			}
			began := time.Now()
			theirsID := sdk.create(batchPrompts)
			oursID, err := ours.SubmitBatch(t.Context(), key, "a-name", requests)
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range []string{theirsID, oursID} {
				testrun.Eventually(t, "the batch ends for both sides", func() bool {
					ended, _ := sdk.ended(id)
					state, err := ours.PollBatch(t.Context(), key, id)
					if err != nil {
						t.Fatal(err)
					}
					return ended && state.Ended
				})
				own := map[string]string{}
				if err := ours.BatchAnswers(t.Context(), key, id, func(request string, result *providers.Result, err error) error {
					if err != nil {
						t.Error(err)
						return nil
					}
					own[request[len(request)-1:]] = result.Text
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(sdk.texts(id), own); diff != "" || len(own) != len(batchPrompts) || !strings.Contains(own["a"], "a") {
					t.Errorf("%s: answers (-SDK +ours):\n%s", id, diff)
				}
			}
			if sdk.find != nil && sdk.find("a-name") != oursID {
				t.Errorf("the SDK finds %q under the name, want %q", sdk.find("a-name"), oursID)
			}
			if id, err := ours.FindBatch(t.Context(), key, "a-name", began, len(requests)); id != oursID || err != nil {
				t.Errorf("found %q, %v, want %q", id, err, oursID)
			}

			long := simulated(t, simulator.Config{Behaviour: simulator.Behaviour{BatchTime: slow}})
			sdk, ours = open(t, long.URL)
			id := sdk.create(batchPrompts)
			sdk.cancel(id)
			testrun.Eventually(t, "the batch is cancelled", func() bool {
				ended, cancelled := sdk.ended(id)
				return ended && cancelled
			})
			if diff := cmp.Diff(map[string]string{"a": "-", "b": "-"}, sdk.texts(id)); diff != "" {
				t.Errorf("cancelled (-want +got):\n%s", diff)
			}
		})
	}
}

var batchVendors = map[string]func(t *testing.T, url string) (batching, providers.Batches){
	"openai": openaiBatches, "anthropic": anthropicBatches, "google": googleBatches,
}

func openaiBatches(t *testing.T, url string) (batching, providers.Batches) {
	t.Helper()
	files, batches := openai.NewFileService(openaiOptions(t, url)...), openai.NewBatchService(openaiOptions(t, url)...)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	get := func(id string) *openai.Batch {
		t.Helper()
		batch, err := batches.Get(t.Context(), id)
		must(err)
		return batch
	}
	ours, err := chat.New(chat.Config{
		Config:  transport.Config{BaseURL: url + "/v1", HTTPClient: httpClient(t)},
		Flavour: chat.Flavour{MaxTokensField: "max_completion_tokens"},
	})
	must(err)
	return batching{
		create: func(prompts []string) string {
			t.Helper()
			var lines bytes.Buffer
			for i, prompt := range prompts {
				params := chatParams(prompt)
				params.MaxCompletionTokens = openai.Int(2000)
				must(json.NewEncoder(&lines).Encode(map[string]any{
					"custom_id": batchID(i), "method": "POST", "url": "/v1/chat/completions", "body": params,
				}))
			}
			file, err := files.New(t.Context(), openai.FileNewParams{
				File: openai.File(&lines, "requests.jsonl", "application/jsonl"), Purpose: openai.FilePurposeBatch,
			})
			must(err)
			if again, err := files.Get(t.Context(), file.ID); err != nil || again.Filename != "requests.jsonl" || again.Bytes != file.Bytes {
				t.Errorf("the file is %+v, %v", again, err)
			}
			batch, err := batches.New(t.Context(), openai.BatchNewParams{
				InputFileID: file.ID, Endpoint: openai.BatchNewParamsEndpointV1ChatCompletions,
				CompletionWindow: openai.BatchNewParamsCompletionWindow24h, Metadata: map[string]string{"evalfleet_batch": "theirs"},
			})
			must(err)
			if batch.Status != openai.BatchStatusValidating || batch.ExpiresAt-batch.CreatedAt != 24*60*60 || batch.InputFileID != file.ID {
				t.Errorf("the new batch is %s", batch.RawJSON())
			}
			return batch.ID
		},
		find: func(name string) string {
			t.Helper()
			all := batches.ListAutoPaging(t.Context(), openai.BatchListParams{Limit: openai.Int(1)})
			for all.Next() {
				if batch := all.Current(); batch.Metadata["evalfleet_batch"] == name {
					return batch.ID
				}
			}
			must(all.Err())
			return ""
		},
		ended: func(id string) (ended, cancelled bool) {
			batch := get(id)
			switch batch.Status {
			case openai.BatchStatusCompleted:
				if batch.RequestCounts.Completed != 2 || batch.RequestCounts.Total != 2 || batch.CompletedAt == 0 {
					t.Errorf("the batch has completed: %s", batch.RawJSON())
				}
				return true, false
			case openai.BatchStatusCancelled:
				return true, batch.CancelledAt > 0
			case openai.BatchStatusFailed, openai.BatchStatusExpired:
				t.Fatalf("the batch is %s", batch.RawJSON())
			}
			return false, false
		},
		cancel: func(id string) {
			t.Helper()
			batch, err := batches.Cancel(t.Context(), id)
			must(err)
			if batch.Status != openai.BatchStatusCancelling {
				t.Errorf("status: got %s, want cancelling", batch.Status)
			}
		},
		texts: func(id string) map[string]string {
			t.Helper()
			texts, batch := map[string]string{}, get(id)
			for _, file := range []string{batch.OutputFileID, batch.ErrorFileID} {
				if file == "" {
					continue
				}
				content, err := files.Content(t.Context(), file)
				must(err)
				defer content.Body.Close()
				for lines := bufio.NewScanner(content.Body); lines.Scan(); {
					var line struct {
						ID       string `json:"custom_id"`
						Response *struct {
							Body openai.ChatCompletion `json:"body"`
						} `json:"response"`
						Error struct{ Code string } `json:"error"`
					}
					must(json.Unmarshal(lines.Bytes(), &line))
					if texts[line.ID] = "-"; line.Response != nil {
						texts[line.ID] = line.Response.Body.Choices[0].Message.Content
					} else if line.Error.Code != "batch_cancelled" {
						t.Errorf("line %s", lines.Text())
					}
				}
			}
			return texts
		},
	}, ours
}

func anthropicBatches(t *testing.T, url string) (batching, providers.Batches) {
	t.Helper()
	batches := anthropicMessages(t, url).Batches
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ours, err := messages.New(messages.Config{BaseURL: url, HTTPClient: httpClient(t)})
	must(err)
	return batching{
		create: func(prompts []string) string {
			t.Helper()
			var params anthropic.MessageBatchNewParams
			for i, prompt := range prompts {
				one := messageParams(prompt)
				params.Requests = append(params.Requests, anthropic.MessageBatchNewParamsRequest{
					// Our dialect takes what is before the ID for the name.
					CustomID: strings.Repeat("x", 24) + batchID(i),
					Params:   anthropic.MessageBatchNewParamsRequestParams{Model: one.Model, MaxTokens: one.MaxTokens, Messages: one.Messages},
				})
			}
			batch, err := batches.New(t.Context(), params)
			must(err)
			if batch.ProcessingStatus != anthropic.MessageBatchProcessingStatusInProgress || batch.ExpiresAt.Sub(batch.CreatedAt) != 24*time.Hour ||
				batch.RequestCounts.Processing != int64(len(prompts)) {
				t.Errorf("the new batch is %s", batch.RawJSON())
			}
			return batch.ID
		},
		ended: func(id string) (ended, cancelled bool) {
			t.Helper()
			batch, err := batches.Get(t.Context(), id, anthropic.MessageBatchGetParams{})
			must(err)
			counts := batch.RequestCounts
			if counts.Processing+counts.Succeeded+counts.Canceled != int64(len(batchPrompts)) {
				t.Errorf("counts of %s", batch.RawJSON())
			}
			return batch.ProcessingStatus == anthropic.MessageBatchProcessingStatusEnded, counts.Canceled > 0 && !batch.CancelInitiatedAt.IsZero()
		},
		cancel: func(id string) {
			t.Helper()
			batch, err := batches.Cancel(t.Context(), id, anthropic.MessageBatchCancelParams{})
			must(err)
			if batch.ProcessingStatus != anthropic.MessageBatchProcessingStatusCanceling {
				t.Errorf("status: got %s, want canceling", batch.ProcessingStatus)
			}
		},
		texts: func(id string) map[string]string {
			t.Helper()
			texts, listed := map[string]string{}, false
			all := batches.ListAutoPaging(t.Context(), anthropic.MessageBatchListParams{Limit: anthropic.Int(1)})
			for all.Next() {
				listed = listed || all.Current().ID == id
			}
			must(all.Err())
			if !listed {
				t.Errorf("batch %s is not in the list", id)
			}
			results := batches.ResultsStreaming(t.Context(), id, anthropic.MessageBatchResultsParams{})
			for results.Next() {
				one := results.Current()
				request := one.CustomID[len(one.CustomID)-1:]
				switch result := one.Result.AsAny().(type) {
				case anthropic.MessageBatchSucceededResult:
					texts[request] = result.Message.Content[0].Text
					if result.Message.Usage.ServiceTier != anthropic.UsageServiceTierBatch {
						t.Errorf("service tier %q, want batch", result.Message.Usage.ServiceTier)
					}
				case anthropic.MessageBatchCanceledResult:
					texts[request] = "-"
				default:
					t.Errorf("result %s", one.RawJSON())
				}
			}
			must(results.Err())
			return texts
		},
	}, ours
}

func googleBatches(t *testing.T, url string) (batching, providers.Batches) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	client, err := genai.NewClient(t.Context(), &genai.ClientConfig{
		Backend: genai.BackendGeminiAPI, APIKey: key, HTTPClient: httpClient(t), HTTPOptions: genai.HTTPOptions{BaseURL: url},
	})
	must(err)
	batches := client.Batches
	ours, err := generate.New(generate.Config{BaseURL: url, HTTPClient: httpClient(t)})
	must(err)
	return batching{
		create: func(prompts []string) string {
			t.Helper()
			source := &genai.BatchJobSource{}
			for i, prompt := range prompts {
				source.InlinedRequests = append(source.InlinedRequests, &genai.InlinedRequest{
					Model: "careful", Contents: genai.Text(prompt), Metadata: map[string]string{"key": batchID(i)},
					Config: &genai.GenerateContentConfig{MaxOutputTokens: 2000},
				})
			}
			batch, err := batches.Create(t.Context(), "careful", source, &genai.CreateBatchJobConfig{DisplayName: "theirs"})
			must(err)
			if batch.State != genai.JobStatePending || batch.DisplayName != "theirs" || batch.Model != "models/careful" {
				t.Errorf("the new batch is %+v", batch)
			}
			return batch.Name
		},
		find: func(name string) string {
			t.Helper()
			page, err := batches.List(t.Context(), &genai.ListBatchJobsConfig{PageSize: 1})
			for {
				must(err)
				for _, batch := range page.Items {
					if batch.DisplayName == name {
						return batch.Name
					}
				}
				if page, err = page.Next(t.Context()); errors.Is(err, genai.ErrPageDone) {
					return ""
				}
			}
		},
		ended: func(id string) (ended, cancelled bool) {
			t.Helper()
			batch, err := batches.Get(t.Context(), id, nil)
			must(err)
			switch batch.State {
			case genai.JobStatePending, genai.JobStateRunning:
				return false, false
			case genai.JobStateSucceeded, genai.JobStateCancelled:
				return true, batch.State == genai.JobStateCancelled
			}
			t.Fatalf("the batch is %s", batch.State)
			return true, false
		},
		cancel: func(id string) {
			t.Helper()
			must(batches.Cancel(t.Context(), id, nil))
		},
		texts: func(id string) map[string]string {
			t.Helper()
			batch, err := batches.Get(t.Context(), id, nil)
			must(err)
			texts := map[string]string{}
			for _, one := range batch.Dest.InlinedResponses {
				if texts[one.Metadata["key"]] = "-"; one.Response != nil {
					texts[one.Metadata["key"]] = one.Response.Text()
				}
			}
			return texts
		},
	}, ours
}
