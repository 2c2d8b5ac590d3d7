// Package conformance has the providers' official SDKs judge both sides of this
// repository's wire: the simulator must answer so that an SDK finds everything
// that its specification requires and nothing else, and the dialects of providers
// must send what an SDK sends for the same intent. Where they differ on purpose,
// the test says why. It is a module of its own, so that the SDKs stay out of the
// program's.
//
// What the SDKs accept is not what the live services do: nothing here calls one.
// A newer version of an SDK that fails here tells what its provider has changed.
package conformance
