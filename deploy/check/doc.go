// Package check holds the tests of everything by which a fleet is deployed: the
// image, docker-compose.yml, the Helm chart, the manifests that are made from it, alerts
// and the dashboard, and their pages. It is a module of its own, so that compose's,
// Helm's, Kubernetes's and Prometheus's types stay out of the program's.
//
// It needs neither a container engine nor a cluster: the chart is rendered and linted
// by Helm's own library, files are decoded strictly with the types of those who will
// read them, command lines are put to the real
// program, and the program is the one that the Dockerfile builds.
package check
