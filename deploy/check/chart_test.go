package check

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
)

const chartDir = "deploy/helm/evalfleet"

// rendered is what `helm template evalfleet --namespace evals` makes of the chart with
// values: text by the template's name. service is who is said to manage the objects.
func rendered(t *testing.T, values, service string) (map[string]string, error) {
	t.Helper()
	return renderedOver(t, values, service, nil)
}

// renderedOver is what helm makes where a Secret, or nil for none, is in the cluster.
func renderedOver(t *testing.T, values, service string, there *corev1.Secret) (map[string]string, error) {
	t.Helper()
	chart, err := loader.Load(filepath.Join(root, chartDir))
	if err != nil {
		t.Fatal(err)
	}
	given, err := loader.LoadValues(strings.NewReader(values))
	if err != nil {
		t.Fatal(err)
	}
	release := common.ReleaseOptions{Name: "evalfleet", Namespace: "evals", Revision: 1, IsInstall: true}
	with, err := util.ToRenderValues(chart, given, release, nil)
	if err != nil {
		return nil, err
	}
	with["Release"].(map[string]any)["Service"] = service
	files, err := engine.RenderWithClientProvider(chart, with, inCluster(t, there))
	if err != nil {
		return nil, err
	}
	short := map[string]string{}
	for name, text := range files {
		if text = strings.TrimSpace(text); text != "" {
			short[filepath.Base(name)] = text + "\n"
		}
	}
	delete(short, "_helpers.tpl")
	return short, nil
}

// provider answers lookup in templates.
type provider struct{ client dynamic.Interface }

func (p provider) GetClientFor(version, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	resource, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(version, kind))
	return p.client.Resource(resource), true, nil
}

func inCluster(t *testing.T, there *corev1.Secret) provider {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if there == nil {
		return provider{fake.NewSimpleDynamicClient(scheme)}
	}
	return provider{fake.NewSimpleDynamicClient(scheme, there)}
}

// options are the sets of values that are rendered and checked as a fleet.
var options = map[string]string{
	"defaults": "",
	"keda": `
autoscaling: {mode: keda}
worker: {minReplicas: 0, maxReplicas: 40, slots: 50}
`,
	"hpa": "autoscaling: {mode: hpa}",
	"pools": `
autoscaling: {mode: keda}
longestCallSeconds: 1800
pools:
  slow: {queues: [openaidp, "my group"], slots: 20, minReplicas: 0, replicas: 0}
  rest: {queues: [openai-chat, openrouter]}
`,
	"another redis and postgres": `
redis: {enabled: false, existingSecret: redis-url, ports: [6380], namespace: mine}
sink: {url: "postgres://evalfleet@db.example.org:5433/evals", existingSecret: postgres}
worker: {cache: true}
controller: {replicas: 2, persistence: {enabled: false}}
`,
	"redis with a password, TLS and Sentinels": `
redis:
  enabled: false
  url: rediss+sentinel://evalfleet@one:26379,two:26380/fleet
  password: {existingSecret: redis, sentinelKey: sentinel}
  tls: {existingSecret: redis-tls, certKey: tls.crt, keyKey: tls.key, serverName: redis.example.org}
`,
	"a password of its own redis": "redis: {password: {existingSecret: redis}}",
	"redis by its url": `
redis: {enabled: false, url: "rediss://redis.example.org:6390/2"}
fleet:
  providers: {local: {dialect: chat, base_url: "http://10.0.0.5:8000/v1"}, plain: {dialect: chat, base_url: "http://inference/v1"}}
  concurrency: {timeout_seconds: 60, per_provider: {local: {timeout_seconds: 500, tokens_per_minute: 2000000}}}
`,
	"everything else": `
nameOverride: judges
commonLabels: {cost-center: research}
image: {repository: registry.example.com/evalfleet, digest: "sha256:` + strings.Repeat("0a", 32) + `"}
imagePullSecrets: [{name: registry}]
providerKeys: {existingSecret: keys, optional: false}
worker: &pod
  podLabels: {team: evals}
  podAnnotations: {example.org/a: b}
  nodeSelector: {kubernetes.io/arch: arm64}
  tolerations: [{key: spot, operator: Exists}]
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}
  priorityClassName: batch
  extraArgs: [--log-level=debug]
  extraEnv: [{name: OTEL_EXPORTER_OTLP_ENDPOINT, value: "http://otel:4318"}]
  extraEnvFrom: [{configMapRef: {name: proxies, optional: true}}]
  extraVolumes: [{name: ca, secret: {secretName: ca}}]
  extraVolumeMounts: [{name: ca, mountPath: /etc/ca, readOnly: true}]
  initContainers: [{name: wait, image: "registry.example.com/wait:1"}]
  sidecars: [{name: proxy, image: "registry.example.com/proxy:1"}]
controller:
  <<: *pod
  auth: {existingSecret: people, key: users}
  allowActions: true
  prometheus: http://prometheus.monitoring:9090
ingress: {enabled: true, className: nginx, host: evals.example.org, tlsSecret: evals-tls, annotations: {example.org/c: d}}
serviceAccount: {create: false}
networkPolicy:
  pagesFrom: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ingress}}}]
  metricsFrom: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]
  extraEgress: [{ports: [{port: 4318}]}]
monitoring:
  podAnnotations: false
  monitors: {enabled: true, labels: {release: prometheus}}
  rules: {enabled: true, labels: {release: prometheus}}
  dashboards: {enabled: true}
enqueue:
  enabled: true
  args: [--again, second]
  files:
    evaluation.yaml: "name: x\ndocuments: [\"*.md\"]\njudges: [\"simulator:careful\"]\npairwise: {}\n"
    a.md: "  Indented."
    b.md: "B."
`,
}

// `helm lint --strict`, and everything that the chart can be made into is a fleet.
func TestChart(t *testing.T) {
	t.Parallel()
	for name, values := range options {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given, err := loader.LoadValues(strings.NewReader(values))
			if err != nil {
				t.Fatal(err)
			}
			for _, message := range lint.RunAll(filepath.Join(root, chartDir), given, "evals").Messages {
				if message.Severity >= support.WarningSev {
					t.Error(message)
				}
			}
			files, err := rendered(t, values, "Helm")
			if err != nil {
				t.Fatal(err)
			}
			notes := files["NOTES.txt"]
			delete(files, "NOTES.txt")
			all := decoded(t, files)
			wantFleet(t, all)
			wantLines(t, notes, all)
		})
	}
}

// What would be a fleet that loses work, or that tells a password, is refused with a
// sentence that names the value.
func TestChartRefuses(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"fleet: {concurency: {}}":                                        "additional properties 'concurency' not allowed",
		"fleet: {providers: {local: {api_key: sk-1}}}":                   "additional properties 'api_key' not allowed",
		"fleet: {concurrency: {max_concurrency: many}}":                  "/fleet/concurrency/max_concurrency",
		"worker: {extraArgs: [--grace=5s]}":                              "worker.extraArgs: set longestCallSeconds or worker.graceSeconds instead of --grace",
		"pools: {slow: {extraArgs: [\"--slots\", \"3\"]}}":               "set worker.slots instead of --slots",
		"controller: {extraArgs: [--config=other.yaml]}":                 "controller.extraArgs: set fleet instead of --config",
		"worker: {extraEnv: [{name: OPENAI_API_KEY, value: sk-1}]}":      "OPENAI_API_KEY has a value",
		"controller: {extraEnv: [{name: PGPASSWORD, value: x}]}":         "PGPASSWORD has a value",
		"controller: {prometheus: \"http://me:secret@prometheus:9090\"}": "controller.prometheus holds a password",
		"fullnameOverride: a123456789b123456789c123456789d123456789\npools: {e12345678901234f: {}}\nautoscaling: {mode: keda}": "has 64 characters",
		"workers: {}":                                                                "additional properties 'workers' not allowed",
		"worker: {slot: 3}":                                                          "additional properties 'slot' not allowed",
		"pools: {slow: {queue: [a]}}":                                                "additional properties 'queue' not allowed",
		"fullnameOverride: my.fleet":                                                 "/fullnameOverride",
		"redis: {image: {tag: \"\"}}":                                                "/redis/image/tag",
		"pools: {Slow: {}}":                                                          "Slow",
		"autoscaling: {mode: kedo}":                                                  "/autoscaling/mode",
		"worker: {slots: \"100\"}":                                                   "/worker/slots",
		"controller: {persistence: {size: 1 GB}}":                                    "/controller/persistence/size",
		"pools: {slow: {resources: {limits: {cpu: 1}}}}":                             "memory",
		"redis: {enabled: false}":                                                    "say one of redis.enabled: true, redis.url and redis.existingSecret",
		"redis: {url: \"redis://other:6379\"}":                                       "say one of redis.enabled: true, redis.url and redis.existingSecret",
		"redis: {enabled: false, url: \"redis://:secret@other:6379\"}":               "redis.url holds a password",
		"redis: {enabled: false, url: \"redis://other:6379?password=secret\"}":       "redis.url holds a password",
		"redis: {enabled: false, url: \"other:6379\"}":                               "/redis/url",
		"sink: {url: \"postgres://evalfleet:secret@db/evals\"}":                      "sink.url holds a password",
		"fleet: {sink: \"postgres://evalfleet:secret@db/evals\"}":                    "sink.url",
		"fleet: {concurrency: {timeout_seconds: 601}}":                               "raise longestCallSeconds",
		"fleet: {concurrency: {per_provider: {openrouter: {timeout_seconds: 700}}}}": "fleet.concurrency.per_provider.openrouter.timeout_seconds is 700",
		"fleet: {concurrency: {per_provider: {openrouter: {models: {m: {timeout_seconds: 700}}}}}}": "fleet.concurrency.per_provider.openrouter.models.m.timeout_seconds is 700",
		"worker: {cache: true}":                                               "worker.cache: true needs sink.url",
		"controller: {persistence: {enabled: false}}":                         "would lose every result",
		"controller: {replicas: 2}":                                           "a results folder has one owner",
		"controller: {allowActions: true}":                                    "controller.auth.existingSecret",
		"ingress: {enabled: true}":                                            "ingress.host",
		"enqueue: {enabled: true}":                                            "enqueue.files has no evaluation.yaml",
		"autoscaling: {mode: hpa}\nworker: {minReplicas: 0}":                  "does not go to 0",
		"autoscaling: {mode: hpa}\npools: {slow: {queues: [a]}}":              "use keda with pools",
		"autoscaling: {mode: keda}\nworker: {maxReplicas: 1, minReplicas: 2}": "minReplicas 2 is more than maxReplicas 1",
		"worker: {resources: {limits: {memory: 1Ei}}}":                        "resources.limits.memory: 1Ei",
	} {
		files, err := rendered(t, values, "Helm")
		if err == nil {
			t.Errorf("%s: rendered %v, want it refused", values, slices.Sorted(maps.Keys(files)))
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", values, err, want)
		}
	}
}

// On spot nodes, a pool stops within the provider's notice, and the other pools take as
// long as their calls.
func TestChartSpotPool(t *testing.T) {
	t.Parallel()
	files, err := rendered(t, "pools: {spot: {graceSeconds: 20}, rest: {}}", "Helm")
	if err != nil {
		t.Fatal(err)
	}
	delete(files, "NOTES.txt")
	workers := decoded(t, files).workloads
	for name, want := range map[string][2]string{"evalfleet-worker-spot": {"20s", "1m5s"}, "evalfleet-worker-rest": {"615s", "11m0s"}} {
		w := workers[name]
		got := [2]string{w.flag("grace"), seconds(w.pod.Spec.TerminationGracePeriodSeconds).String()}
		if got != want {
			t.Errorf("%s: --grace and time until the kill are %v, want %v", name, got, want)
		}
	}
}

// OpenShift assigns user and group ids, and rejects pods that name others.
func TestChartOnOpenShift(t *testing.T) {
	t.Parallel()
	files, err := rendered(t, `
podSecurityContext: &assigned {runAsUser: null, runAsGroup: null, fsGroup: null}
redis: {podSecurityContext: *assigned}
enqueue: {enabled: true, files: {evaluation.yaml: "name: x"}}
`, "Helm")
	if err != nil {
		t.Fatal(err)
	}
	delete(files, "NOTES.txt")
	for name, w := range decoded(t, files).workloads {
		s := w.pod.Spec.SecurityContext
		if s == nil || s.RunAsUser != nil || s.RunAsGroup != nil || s.FSGroup != nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot {
			t.Errorf("%s: security context %+v, want runAsNonRoot and no ids", name, s)
		}
	}
}

// Objects name the chart and its version. Pods do not: Redis would restart at every
// upgrade of the chart.
func TestChartLabels(t *testing.T) {
	t.Parallel()
	files, err := rendered(t, options["everything else"], "Helm")
	if err != nil {
		t.Fatal(err)
	}
	delete(files, "NOTES.txt")
	all := decoded(t, files)
	for _, o := range all.objects {
		of := o.GetLabels()
		if !strings.HasPrefix(of["helm.sh/chart"], "evalfleet-") || of["app.kubernetes.io/version"] == "" || of["cost-center"] != "research" {
			t.Errorf("%s has the labels %v; want helm.sh/chart, app.kubernetes.io/version and those of commonLabels", o.GetName(), of)
		}
	}
	for name, w := range all.workloads {
		of := w.pod.Labels
		if of["cost-center"] != "research" {
			t.Errorf("pods of %s lack the label of commonLabels: %v", name, of)
		}
		if w.part != "test" && (of["helm.sh/chart"] != "" || of["app.kubernetes.io/version"] != "") {
			t.Errorf("pods of %s have the labels %v; want none that changes with the version", name, of)
		}
	}
}

// The chart's README has every value with its default.
func TestChartReadme(t *testing.T) {
	t.Parallel()
	defaults, err := loader.LoadValues(strings.NewReader(read(t, chartDir+"/values.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| ([\\w.]+) \\| \\w+ \\| `(.*?)` \\| \\S").FindAllStringSubmatch(read(t, chartDir+"/README.md"), -1) {
		documented[row[1]] = row[2]
	}
	var visit func(at string, value any)
	visit = func(at string, value any) {
		if got, ok := documented[at]; ok {
			want, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			if value == nil {
				want = []byte("nil")
			}
			if got != string(want) {
				t.Errorf("README.md: %s has the default %s, want %s: run make chart-readme", at, got, want)
			}
			delete(documented, at)
			return
		}
		inner, ok := value.(map[string]any)
		if !ok {
			t.Errorf("README.md has no row for %s: give it a description in values.yaml and run make chart-readme", at)
		}
		for name, of := range inner {
			visit(strings.TrimPrefix(at+"."+name, "."), of)
		}
	}
	visit("", defaults)
	for name := range documented {
		t.Errorf("README.md has a row for %s, which is no value: run make chart-readme", name)
	}
}

// Every key of values.yaml is said in the schema, and every key of the schema has its
// default in values.yaml.
func TestChartValuesAndSchemaAgree(t *testing.T) {
	t.Parallel()
	if _, err := rendered(t, "", "Helm"); err != nil {
		t.Fatal(err) // a default that the schema does not know
	}
	text, err := os.ReadFile(filepath.Join(root, chartDir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defaults, err := loader.LoadValues(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	fromJSON(t, read(t, chartDir+"/values.schema.json"), &schema)
	wantDefaults(t, "", schema, schema["definitions"].(map[string]any), defaults)
}

func wantDefaults(t *testing.T, at string, schema, definitions map[string]any, defaults map[string]any) {
	t.Helper()
	properties, _ := schema["properties"].(map[string]any)
	for name, of := range properties {
		if at == "" && (name == "global" || name == "fleet") {
			continue // what a chart above gives to all, and a file of its own
		}
		of := of.(map[string]any)
		if ref, ok := of["$ref"].(string); ok {
			of = definitions[strings.TrimPrefix(ref, "#/definitions/")].(map[string]any)
		}
		value, ok := defaults[name]
		if !ok {
			t.Errorf("values.yaml has no %s/%s", at, name)
			continue
		}
		if inner, ok := value.(map[string]any); ok {
			wantDefaults(t, at+"/"+name, of, definitions, inner)
		}
	}
}

// A digest that is given is what pods run: of every image, and instead of its tag.
func TestChartPinsImages(t *testing.T) {
	t.Parallel()
	own, redis := "sha256:"+strings.Repeat("0a", 32), "sha256:"+strings.Repeat("0b", 32)
	files, err := rendered(t, "image: {digest: \""+own+"\"}\nredis: {image: {digest: \""+redis+"\"}}\nenqueue: {enabled: true, files: {evaluation.yaml: \"name: x\"}}\n", "Helm")
	if err != nil {
		t.Fatal(err)
	}
	images := 0
	for name, text := range files {
		for line := range strings.Lines(text) {
			_, image, found := strings.Cut(strings.TrimSpace(line), "image: ")
			if !found || name == "NOTES.txt" {
				continue
			}
			images++
			want := "@" + own
			if strings.Contains(image, "redis") {
				want = "@" + redis
			}
			if !strings.HasSuffix(image, want) {
				t.Errorf("%s runs %s, want it pinned to %s", name, image, want)
			}
		}
	}
	if images < 4 {
		t.Errorf("%d images, want those of workers, controller, submission and Redis", images)
	}
}
