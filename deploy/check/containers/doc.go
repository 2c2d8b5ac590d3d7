// Package containers has the tests of docker-compose.yml, deploy/Dockerfile and the chart at work: `make containers` and
// `make cluster`. They start the fleet by the commands of docs/fleet.md and docs/kubernetes.md, inject faults while
// evaluations run, and count at the simulator, which knows what was called. They need a Docker engine and a cluster, and
// are a package of their own so that they compile without Helm and Kubernetes.
package containers
