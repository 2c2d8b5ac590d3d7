// Package check holds the tests of everything by which a fleet is deployed: the image, docker-compose.yml, the Helm
// chart, the manifests made from it, alerts, the dashboard, and their pages. It is a separate module, so that the
// program does not depend on the types of compose, Helm, Kubernetes and Prometheus.
//
// It needs neither a container engine, for which the package containers is, nor a cluster. Helm's own library renders
// and lints the chart. Files are decoded strictly with the types of the programs that read them. Command lines are run
// with the real program, which is the one that the Dockerfile builds.
package check
