// Command replay reads recordings of real calls to providers (VCR cassettes from the
// tests of client libraries), has each recorded answer read by the dialects, and
// compares what they made of it with what package expect found in the recording.
//
//	go run ./providers/replay FOLDER
//
// It fetches nothing: the recordings are the user's. It judges answers, not requests:
// a recorded request names the model and the endpoint, and nothing else of it is sent.
package main
