// Command replay reads recordings of real calls to providers (VCR cassettes from the
// tests of client libraries), has each recorded answer read by the dialects, and
// compares what they made of it with what package expect found in the recording.
//
//	go run ./providers/replay FOLDER
//
// It fetches nothing: the recordings are the user's. Of a recorded request only the
// model and the endpoint are used for the call; its temperature and effort, and what
// became of them, are compared with models.yaml.
package main
