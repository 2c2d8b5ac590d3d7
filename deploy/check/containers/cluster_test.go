package containers

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// ofCluster are the values of the release, beside the image: two workers, and the simulator as a provider.
const ofCluster = `
fleet:
  providers: {simulator: {base_url: "http://simulator:8089/v1"}}
  concurrency: {per_provider: {simulator: {max_concurrency: 8}}}
`

// simulatorPod answers calls in the fleet's namespace, and is held to the same rules.
const simulatorPod = `apiVersion: v1
kind: Pod
metadata: {name: simulator, labels: {app: simulator}}
spec:
  securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: simulator
      image: IMAGE
      args: [simulate, --listen, "0.0.0.0:8089", --max-in-flight, "8", --latency, 300ms..1s]
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
---
apiVersion: v1
kind: Service
metadata: {name: simulator}
spec: {selector: {app: simulator}, ports: [{port: 8089}]}
`

// strikerPod sees the processes of its node, which that of the first worker is.
const strikerPod = `apiVersion: v1
kind: Pod
metadata: {name: striker}
spec:
  hostPID: true
  nodeName: NODE
  terminationGracePeriodSeconds: 0
  containers: [{name: striker, image: "REDIS", command: [sleep, "86400"], securityContext: {runAsUser: 0}}]
`

const (
	inEvals   = "kubectl --namespace evals "
	inStrikes = "kubectl --namespace evalfleet-strikes "
	component = "app.kubernetes.io/component"
)

// ofKubernetes strike one after another, as those of Compose do.
var ofKubernetes = []fault{
	{name: "none", strike: func(*project) {}},
	{name: "kill -9 of a worker", strike: func(p *project) { p.killPod("worker") }, repeats: mostInFlight},
	{name: "kill -9 of Redis", strike: func(p *project) { p.killPod("redis") }, repeats: mostInFlight},
	{name: "kill -9 of the controller", strike: func(p *project) { p.killPod("controller") }},
	{name: "a worker's pod deleted", strike: func(p *project) { p.output(inEvals + "delete pod " + p.pod("worker")) }},
	{name: "a worker's pod deleted by force", strike: func(p *project) {
		p.output(inEvals + "delete --force --grace-period 0 pod " + p.pod("worker"))
	}, repeats: mostInFlight},
	{name: "Redis' pod deleted", strike: func(p *project) { p.output(inEvals + "delete pod " + p.pod("redis")) }, repeats: mostInFlight},
	{name: "the controller's pod deleted by force", strike: func(p *project) {
		p.output(inEvals + "delete --force --grace-period 0 pod " + p.pod("controller"))
	}},
	{name: "no workers, then three", strike: func(p *project) {
		p.output(inEvals + "scale deployment/evalfleet-worker --replicas 0")
		p.output(inEvals + "wait --for delete pod --selector " + component + "=worker --timeout 20m")
		p.output(inEvals + "scale deployment/evalfleet-worker --replicas 3")
	}},
	{name: "rollout restart of the workers", strike: func(p *project) {
		p.output(inEvals + "rollout restart deployment/evalfleet-worker")
		p.output(inEvals + "rollout status deployment/evalfleet-worker --timeout 20m")
	}},
	{name: "node drained, then back", strike: func(p *project) {
		node := p.node()
		// Where there is no other node, the disruption budget keeps a worker, and the drain ends with its timeout.
		_, _ = p.run("kubectl drain " + node + " --ignore-daemonsets --delete-emptydir-data " +
			"--pod-selector app.kubernetes.io/instance=evalfleet --timeout 20s")
		p.output("kubectl uncordon " + node)
	}, repeats: mostInFlight},
	// Last: the version stays.
	{name: "helm upgrade to another version", strike: func(p *project) {
		p.write("values.yaml", strings.Replace(p.read("values.yaml"), "tag: "+p.tag, "tag: "+p.tag+nextVersion, 1))
		for _, line := range documented(p.t, "docs/kubernetes.md", "helm upgrade evalfleet deploy/helm/evalfleet") {
			p.output(line)
		}
		p.output(inEvals + "rollout status deployment/evalfleet-controller --timeout 20m")
		p.eventually("all pods have the image of the other version", func() error {
			images := strings.Fields(p.output(inEvals + "get pods --selector '" + component + " in (worker, controller)' " +
				"--output jsonpath='{.items[*].spec.containers[0].image}'"))
			for _, image := range images {
				if !strings.HasSuffix(image, ":"+p.tag+nextVersion) {
					return fmt.Errorf("they have %v", images)
				}
			}
			return nil
		})
	}},
}

// pod returns the name of a part's first pod that is ready.
func (p *project) pod(part string) (name string) {
	p.t.Helper()
	p.eventually("a pod of "+part+" is ready", func() error {
		ready := strings.Fields(p.output(inEvals + "get pods --selector " + component + "=" + part +
			` --output jsonpath='{range .items[?(@.status.containerStatuses[0].ready==true)]}{.metadata.name} {end}'`))
		if len(ready) == 0 {
			return errors.New("there is none")
		}
		name = ready[0]
		return nil
	})
	return name
}

// node returns the name of the node that a worker runs on.
func (p *project) node() string {
	p.t.Helper()
	return p.output(inEvals + "get pod " + p.pod("worker") + " --output jsonpath={.spec.nodeName}")
}

// killPod sends SIGKILL to the process of a part's first pod on the striker's node.
func (p *project) killPod(part string) {
	p.t.Helper()
	id := p.output(inEvals + "get pod " + p.pod(part) + " --output jsonpath='{.status.containerStatuses[0].containerID}'")
	_, id, _ = strings.Cut(id, "://")
	p.output(inStrikes + `exec striker -- sh -c 'for process in $(grep -ls ` + id + ` /proc/[0-9]*/cgroup); do
		process=${process%/cgroup}
		kill -9 ${process#/proc/} && killed=yes
	done
	[ "$killed" ]'`)
}

// TestCluster installs the chart as docs/kubernetes.md says, in a namespace that enforces the restricted security
// standard, and lets faults strike. What must hold is what TestContainers says.
func TestCluster(t *testing.T) {
	p := newProject(t)
	p.toEvalfleet = inEvals + "exec deployment/evalfleet-controller -- evalfleet"
	simulator := "/api/v1/namespaces/evals/services/simulator:8089/proxy"
	p.toCount = "kubectl get --raw " + simulator + "/stats"
	p.toReset = "kubectl create --raw " + simulator + "/stats/reset --filename /dev/null"
	p.toDiagnose = inEvals + "get pods --output wide; " + inEvals + "get events --sort-by .lastTimestamp | tail -15"
	docs := "docs/kubernetes.md"
	repository, struckBy := p.pushed(documented(t, docs, "docker build -f deploy/Dockerfile")), ofKubernetes
	if *image != "" {
		struckBy = struckBy[:len(struckBy)-1] // there is no other version
	}

	p.write("keys.env", "OPENAI_API_KEY=unused\n")
	p.write("values.yaml", "image: {repository: "+repository+", tag: "+p.tag+"}"+ofCluster)
	t.Cleanup(func() {
		_, _ = p.run("helm uninstall evalfleet --namespace evals --wait --timeout 3m")
		_, _ = p.run("kubectl delete namespace evals evalfleet-strikes --timeout 3m")
	})
	for _, line := range documented(t, docs, "kubectl create namespace evals") {
		if !strings.Contains(line, "oci://") {
			p.output(line)
		}
	}
	p.output("kubectl label namespace evals pod-security.kubernetes.io/enforce=restricted")
	p.write("simulator.yaml", strings.Replace(simulatorPod, "IMAGE", repository+":"+p.tag, 1))
	p.output(inEvals + "apply --filename simulator.yaml")
	p.output(inEvals + "wait --for condition=Ready pod/simulator --timeout 5m")

	p.installed(documented(t, docs, "docker build -f deploy/Dockerfile"))
	p.output("kubectl create namespace evalfleet-strikes")
	redis := p.output(inEvals + "get pod " + p.pod("redis") + " --output jsonpath='{.spec.containers[0].image}'")
	p.write("striker.yaml", strings.NewReplacer("NODE", p.node(), "REDIS", redis).Replace(strikerPod))
	p.output(inStrikes + "apply --filename striker.yaml")
	p.output(inStrikes + "wait --for condition=Ready pod/striker --timeout 5m")
	p.struck(struckBy, p.submit)

	t.Log(p.output("helm test evalfleet --namespace evals"))
	p.uninstalled()
}

// pushed builds the image as docs/kubernetes.md says, in two versions, and brings it to the node. It returns the name
// without its tag. An image that is given is in the cluster's registry already.
func (p *project) pushed(lines []string) (repository string) {
	p.t.Helper()
	if *image != "" {
		at := strings.LastIndex(*image, ":")
		p.tag = (*image)[at+1:]
		return (*image)[:at]
	}
	load := os.Getenv("NODE_LOAD")
	if load == "" {
		p.t.Fatal("the cluster of KUBECONFIG gets its images from a registry: push one there, and name it: make cluster IMAGE=registry/name:tag")
	}
	p.t.Cleanup(func() {
		for _, image := range p.images {
			_, _ = p.run("docker image rm --force " + image)
		}
	})
	p.bases()
	p.tag = "v1"
	began := time.Now()
	for _, line := range lines {
		if strings.HasPrefix(line, "docker build ") {
			p.output(line)
			p.output(strings.NewReplacer(":v1", ":v1"+nextVersion, `"$(git describe --tags --always --dirty)"`, "next").Replace(line))
		}
		if name, ok := strings.CutPrefix(line, "docker push "); ok {
			repository = strings.TrimSuffix(name, ":v1")
		}
	}
	p.t.Logf("the image is built in two versions after %.0f s", time.Since(began).Seconds())
	built := []string{repository + ":v1", repository + ":v1" + nextVersion}
	p.images = append(p.images, built...)
	redis := regexp.MustCompile(`image: (redis:\S+)`).FindStringSubmatch(p.read("docker-compose.yml"))[1]
	p.output("docker save " + strings.Join(built, " ") + " " + redis + " | " + load)
	return repository
}

// installed installs the release, and prints how long a node that has the image takes to the first verdict.
func (p *project) installed(lines []string) {
	p.t.Helper()
	began := time.Now()
	for _, line := range lines {
		if strings.HasPrefix(line, "helm ") {
			p.output(line)
		}
	}
	p.output(inEvals + "rollout status deployment/evalfleet-controller --timeout 20m")
	p.output(inEvals + "rollout status deployment/evalfleet-worker --timeout 20m")
	ready := time.Since(began)
	p.writeDocuments()
	p.submit("first")
	p.eventually("a verdict is recorded", func() error {
		e, err := p.status("first")
		if err == nil && e.recorded == 0 {
			err = fmt.Errorf("none of %d runs recorded", e.planned)
		}
		return err
	})
	p.t.Logf("ready after %.1f s, first verdict after %.1f s", ready.Seconds(), time.Since(began).Seconds())
	p.concludes("first")
}

// submit has the chart's job submit the evaluation of faults, with its documents as files.
func (p *project) submit(name string) {
	p.t.Helper()
	p.write("evaluation.yaml", strings.NewReplacer("NAME", name, "docs/*.md", "*.md").Replace(ofFaults))
	block := strings.Join(documented(p.t, "docs/kubernetes.md", "--show-only templates/enqueue.yaml"), "\n")
	apply, logs, _ := strings.Cut(block, "\nkubectl ")
	p.output(strings.Replace(apply, "--set enqueue.enabled=true",
		`--set enqueue.enabled=true $(for f in mine/docs/*.md; do n=${f##*/}; printf '%s ' "--set-file enqueue.files.${n%.md}\.md=$f"; done)`, 1))
	p.eventually("the log of the submission is there", func() error {
		_, err := p.run("kubectl " + logs)
		return err
	})
}

// uninstalled uninstalls the release, and prints how long its pods need to be gone. Those of submissions are not its.
func (p *project) uninstalled() {
	p.t.Helper()
	began := time.Now()
	p.output("helm uninstall evalfleet --namespace evals")
	p.output(inEvals + "wait --for delete pod --selector '" + component + " in (worker, controller, redis)' --timeout 20m")
	p.t.Logf("uninstalled: no pod is left after %.0f s", time.Since(began).Seconds())
}
