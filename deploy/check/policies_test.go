package check

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	strict "sigs.k8s.io/yaml"
)

// anywhere is a peer that is no pod of the fleet.
var anywhere = workload{name: "a stranger", pod: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "other"}}}}

// lets reports whether policies let `from` connect to a port of `to`, as Kubernetes
// takes them: a pod that no policy chooses for a direction is open in it.
func (c *cluster) lets(t *testing.T, from, to workload, port int) bool {
	t.Helper()
	policies := all[*networkingv1.NetworkPolicy](c)
	open := func(direction networkingv1.PolicyType, of, peer workload) bool {
		chosen := false
		for _, p := range policies {
			if of.container0() == nil || !slices.Contains(p.Spec.PolicyTypes, direction) || !selects(t, &p.Spec.PodSelector, of.pod.Labels) {
				continue
			}
			chosen = true
			if direction == networkingv1.PolicyTypeIngress {
				for _, rule := range p.Spec.Ingress {
					if portIn(rule.Ports, to, port) && peerIn(t, rule.From, peer) {
						return true
					}
				}
				continue
			}
			for _, rule := range p.Spec.Egress {
				if portIn(rule.Ports, to, port) && peerIn(t, rule.To, peer) {
					return true
				}
			}
		}
		return !chosen
	}
	return open(networkingv1.PolicyTypeEgress, from, to) && open(networkingv1.PolicyTypeIngress, to, from)
}

// container0 is nil for a peer outside the fleet.
func (w workload) container0() *corev1.Container {
	if len(w.pod.Spec.Containers) == 0 {
		return nil
	}
	return &w.pod.Spec.Containers[0]
}

func portIn(ports []networkingv1.NetworkPolicyPort, to workload, port int) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool {
		if p.Port.Type == intstr.Int {
			return p.Port.IntValue() == port
		}
		c := to.container0()
		return c != nil && slices.ContainsFunc(c.Ports, func(of corev1.ContainerPort) bool {
			return of.Name == p.Port.StrVal && int(of.ContainerPort) == port
		})
	})
}

// peerIn takes a selector of namespaces for one that chooses a peer outside the fleet.
func peerIn(t *testing.T, peers []networkingv1.NetworkPolicyPeer, peer workload) bool {
	t.Helper()
	return len(peers) == 0 || slices.ContainsFunc(peers, func(p networkingv1.NetworkPolicyPeer) bool {
		if p.NamespaceSelector != nil {
			return peer.container0() == nil
		}
		return p.PodSelector != nil && selects(t, p.PodSelector, peer.pod.Labels)
	})
}

// wantPolicies: every pod reaches what it needs, and the pages and Redis are reached by
// no other.
func wantPolicies(t *testing.T, c *cluster) {
	t.Helper()
	controller := c.parts("controller")[0]
	var fleet struct {
		Providers map[string]struct {
			BaseURL string `json:"base_url"`
		}
		Sink string
	}
	if err := strict.Unmarshal([]byte(c.fleet()), &fleet); err != nil {
		t.Fatal(err)
	}
	want := func(from, to workload, port int, open bool) {
		t.Helper()
		if got := c.lets(t, from, to, port); got != open {
			t.Errorf("%s reaches port %d of %s: %t, want %t", from.name, port, to.name, got, open)
		}
	}
	for _, w := range c.workloads {
		if w.part == "redis" {
			want(anywhere, w, 6379, false)
			want(w, anywhere, 443, false)
			continue
		}
		want(w, anywhere, 53, true)
		host, port := address(t, environment(w)["EVALFLEET_REDIS"], 6379)
		if redis, ok := c.workloads[host]; ok {
			want(w, redis, port, true)
		} else {
			want(w, anywhere, port, true)
		}
		if fleet.Sink != "" && w.part != "worker" {
			_, port := address(t, fleet.Sink, 5432)
			want(w, anywhere, port, true)
		}
		if w.part == "worker" {
			want(anywhere, w, 9090, true)
			want(w, anywhere, 443, true)
			want(w, anywhere, 22, false)
			for _, of := range fleet.Providers {
				_, port := address(t, of.BaseURL, map[bool]int{true: 80, false: 443}[strings.HasPrefix(of.BaseURL, "http:")])
				want(w, anywhere, port, true)
			}
		}
	}
	want(anywhere, controller, 9090, true)
	if charts := controller.flag("prometheus"); charts != "" {
		_, port := address(t, charts, 80)
		want(controller, anywhere, port, true)
	}
	want(anywhere, controller, 8080, len(all[*networkingv1.Ingress](c)) > 0)
	want(controller, anywhere, 443, false)
}

// address is where a URL leads; that of a Secret is taken to be at port 6380.
func address(t *testing.T, text string, usual int) (string, int) {
	t.Helper()
	if strings.HasPrefix(text, "secret ") {
		return "", 6380
	}
	if first, rest, several := strings.Cut(text, ","); several { // Sentinels or nodes of a cluster
		text = first + rest[strings.Index(rest, "/"):]
	}
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if u.Port() == "" {
		return u.Hostname(), usual
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return u.Hostname(), port
}
