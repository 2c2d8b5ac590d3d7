module github.com/evalfleet/evalfleet/tools/providers

go 1.26.0

replace github.com/evalfleet/evalfleet => ../..

require (
	github.com/evalfleet/evalfleet v0.0.0-00010101000000-000000000000
	github.com/goccy/go-yaml v1.19.2
	github.com/google/go-cmp v0.7.0
	github.com/klauspost/compress v1.20.3
	go.uber.org/goleak v1.3.0
)

require (
	golang.org/x/net v0.59.0 // indirect
	golang.org/x/text v0.42.0 // indirect
)
