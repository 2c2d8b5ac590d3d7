// Command replay compares what the dialects read from recorded answers with what package expect finds in them. The
// recordings are real calls to providers: VCR cassettes from the tests of client libraries.
//
//	go run ./replay FOLDER
//
// It fetches nothing: the recordings are the user's. Of a recorded request only the model and the endpoint are used for
// the call. Its temperature and effort, and the provider's reaction to them, are compared with models.yaml.
package main
