// Package containers has the test of docker-compose.yml and deploy/Dockerfile at work: `make containers`. It starts the
// fleet by the commands of docs/fleet.md, injects faults while evaluations run, and counts at the simulator, which knows
// what was called. It needs a Docker engine, and is a package of its own so that it compiles without Helm and Kubernetes.
package containers
