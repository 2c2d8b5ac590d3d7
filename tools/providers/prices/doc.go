// Command prices writes the generated parts of the tables of prices and of models, prices_generated.yaml and
// models_generated.yaml in providers/catalog, from a clone of github.com/pydantic/genai-prices (MIT licence).
//
//	go run ./prices CLONE ../../providers/catalog
//
// It fetches nothing. It reads the files of the clone's HEAD, so that the figures come from the commit named in the
// tables. Models in rows of prices.yaml, and windows in rules of models.yaml, are left out. So is what the tables
// cannot express; it is printed with the reason.
package main
