// Command replay reads recordings of real calls to providers (VCR cassettes from the tests of
// client libraries), makes the dialects read each recorded answer, and compares their results
// with those that package expect finds in the recording.
//
//	go run ./providers/replay FOLDER
//
// It fetches nothing: the recordings are the user's. Of a recorded request only the model and
// the endpoint are used for the call; its temperature and effort, and the provider's reaction
// to them, are compared with models.yaml.
package main
