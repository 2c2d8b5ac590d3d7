// Package conformance checks both sides of this repository's wire with the providers' official SDKs. The simulator must
// answer so that an SDK finds everything that its specification requires and nothing else. The dialects of providers
// must send what an SDK sends for the same intent. If they differ on purpose, the test says why. It is a separate
// module, so that the program does not depend on the SDKs.
//
// What the SDKs accept is not what the live services do: nothing here calls one. If a newer version of an SDK fails
// here, its provider has changed something.
package conformance
