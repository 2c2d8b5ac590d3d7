// Command prices writes the generated part of the price table,
// providers/catalog/prices_generated.yaml, from a clone of
// github.com/pydantic/genai-prices (MIT licence).
//
//	go run ./providers/prices CLONE providers/catalog/prices.yaml providers/catalog/prices_generated.yaml
//
// It fetches nothing. It reads the files of the clone's HEAD, so that the commit named
// in the table is the one that the figures are from. A model that a row of prices.yaml
// names is left to that row. What the table cannot express is left out, and printed
// with the reason.
package main
