package check

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	strict "sigs.k8s.io/yaml"
)

// scaledObject is what of KEDA's is read here.
type scaledObject struct {
	ScaleTargetRef  struct{ Name, Kind string }
	MinReplicaCount int32
	MaxReplicaCount int32
	Fallback        struct{ Behavior string }
	Advanced        struct {
		HorizontalPodAutoscalerConfig struct {
			Behavior autoscalingv2.HorizontalPodAutoscalerBehavior
		}
	}
	Triggers []struct {
		Type, MetricType string
		Metadata         map[string]string
	}
}

// wantScaling: replicas have one owner. Who scales a Deployment asks the controller
// for the queues that it serves, and divides by its slots.
func wantScaling(t *testing.T, c *cluster) {
	t.Helper()
	owned := map[string]int{}
	for _, object := range all[*unstructured.Unstructured](c) {
		var so struct{ Spec scaledObject }
		text, err := json.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		fromJSON(t, string(text), &so)
		owned[so.Spec.ScaleTargetRef.Name]++
		w, ok := c.workloads[so.Spec.ScaleTargetRef.Name]
		if !ok || so.Spec.ScaleTargetRef.Kind != "Deployment" {
			t.Errorf("%s scales %+v, which is not there", object.GetName(), so.Spec.ScaleTargetRef)
			continue
		}
		wantTrigger(t, c, w, so.Spec)
		wantBehavior(t, w.name, &so.Spec.Advanced.HorizontalPodAutoscalerConfig.Behavior)
	}
	for _, hpa := range all[*autoscalingv2.HorizontalPodAutoscaler](c) {
		owned[hpa.Spec.ScaleTargetRef.Name]++
		w := c.workloads[hpa.Spec.ScaleTargetRef.Name]
		metric := hpa.Spec.Metrics[0].External
		if metric.Target.Type != autoscalingv2.AverageValueMetricType || metric.Target.AverageValue.String() != w.flag("slots") {
			t.Errorf("%s: the target is %+v, want an average of the slots of a pod, %s", hpa.Name, metric.Target, w.flag("slots"))
		}
		if !strings.Contains(read(t, "internal/controller/metrics.go"), strconv.Quote(metric.Metric.Name)) {
			t.Errorf("%s asks for %s, which the controller does not tell", hpa.Name, metric.Metric.Name)
		}
		if *hpa.Spec.MinReplicas < 1 || *hpa.Spec.MinReplicas > hpa.Spec.MaxReplicas {
			t.Errorf("%s: from %d to %d replicas", hpa.Name, *hpa.Spec.MinReplicas, hpa.Spec.MaxReplicas)
		}
		wantBehavior(t, hpa.Name, hpa.Spec.Behavior)
	}
	for _, w := range c.parts("worker") {
		switch set := w.object.(*appsv1.Deployment).Spec.Replicas != nil; {
		case owned[w.name] > 1:
			t.Errorf("%s is scaled by %d", w.name, owned[w.name])
		case set == (owned[w.name] == 1):
			t.Errorf("%s: replicas are set: %t, and scaled by %d: want one owner", w.name, set, owned[w.name])
		}
	}
}

func wantTrigger(t *testing.T, c *cluster, w workload, so scaledObject) {
	t.Helper()
	if len(so.Triggers) != 1 || so.Triggers[0].Type != "metrics-api" || so.Triggers[0].MetricType != "AverageValue" {
		t.Fatalf("%s: triggers are %+v, want the controller's alone, as an average", w.name, so.Triggers)
	}
	asks := so.Triggers[0].Metadata
	if asks["targetValue"] != w.flag("slots") {
		t.Errorf("%s: %s calls for a pod with %s slots", w.name, asks["targetValue"], w.flag("slots"))
	}
	if want := `json:"` + asks["valueLocation"] + `"`; !strings.Contains(read(t, "internal/controller/scale.go"), "Desired int     `"+want) {
		t.Errorf("%s reads %s of /scale, which has none", w.name, asks["valueLocation"])
	}
	if so.Fallback.Behavior != "currentReplicas" || so.MinReplicaCount > so.MaxReplicaCount {
		t.Errorf("%s: without an answer: %+v; from %d to %d replicas", w.name, so.Fallback, so.MinReplicaCount, so.MaxReplicaCount)
	}
	u, err := url.Parse(asks["url"])
	if err != nil {
		t.Fatal(err)
	}
	service := slices.IndexFunc(all[*corev1.Service](c), func(s *corev1.Service) bool {
		return u.Hostname() == s.Name+".evals.svc" && slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool {
			return strconv.Itoa(int(p.Port)) == u.Port() && p.TargetPort.StrVal == "metrics"
		})
	})
	if service < 0 || u.Path != "/scale" {
		t.Errorf("%s asks %s, which does not answer", w.name, u)
	}
	var queues []string
	if only := w.flag("queues"); only != "" {
		queues = strings.Split(only, ",")
	}
	if !slices.Equal(u.Query()["queue"], queues) {
		t.Errorf("%s asks for the queues %q and serves %q", w.name, u.Query()["queue"], queues)
	}
}

// wantBehavior: up at once, down slowly: a pod that goes has calls to end.
func wantBehavior(t *testing.T, name string, b *autoscalingv2.HorizontalPodAutoscalerBehavior) {
	t.Helper()
	if b == nil || b.ScaleDown == nil || b.ScaleDown.StabilizationWindowSeconds == nil || *b.ScaleDown.StabilizationWindowSeconds < 60 ||
		b.ScaleUp == nil || len(b.ScaleUp.Policies) == 0 || len(b.ScaleDown.Policies) == 0 {
		t.Errorf("%s: behaves as %+v", name, b)
	}
}

// adapterRule is what docs/kubernetes.md has prometheus-adapter ask for the chart's
// external metric, and the part of it that says 0 where no evaluation is active.
func adapterRule(t *testing.T) (whole, idle string) {
	t.Helper()
	for _, block := range fenced.FindAllStringSubmatch(read(t, "docs/kubernetes.md"), -1) {
		if !strings.Contains(block[2], "metricsQuery") {
			continue
		}
		var adapter struct {
			Rules struct {
				External []struct {
					SeriesQuery, MetricsQuery string
					Name                      struct{ As string }
				}
			}
		}
		if err := strict.Unmarshal([]byte(block[2]), &adapter); err != nil || len(adapter.Rules.External) != 1 {
			t.Fatalf("%v: %+v", err, adapter)
		}
		rule := adapter.Rules.External[0]
		files, err := rendered(t, "autoscaling: {mode: hpa}", "Helm")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(files["autoscaling.yaml"], "metric: {name: "+rule.Name.As+"}") {
			t.Errorf("the rule's metric is %s, which the chart does not ask for", rule.Name.As)
		}
		query := strings.NewReplacer("<<.Series>>", rule.SeriesQuery, "<<.LabelMatchers>>", "").Replace(rule.MetricsQuery)
		_, idle, ok := strings.Cut(query, " or ")
		if !ok {
			t.Fatalf("%s says nothing where no evaluation is active, and replicas would stay", query)
		}
		return query, idle
	}
	t.Fatal("docs/kubernetes.md has no rule for prometheus-adapter")
	return "", ""
}
