// Command prices writes the generated parts of the tables of prices and of models,
// prices_generated.yaml and models_generated.yaml in providers/catalog, from a clone of
// github.com/pydantic/genai-prices (MIT licence).
//
//	go run ./providers/prices CLONE providers/catalog
//
// It fetches nothing. It reads the files of the clone's HEAD, so that the commit named
// in the tables is the one that the figures are from. A model that a row of prices.yaml
// names is left to that row, and a window that models.yaml states to that rule. What the
// tables cannot express is left out, and printed with the reason.
package main
