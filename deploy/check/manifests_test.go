package check

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	strict "sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write what is generated: deploy/k8s from the chart, or the chart's schema of fleet")

var trailing = regexp.MustCompile(`(?m)[ \t]+$`)

const manifestsDir = "deploy/k8s"

// manifests are the files that deploy/k8s should hold: the chart, made with the values
// that are there, for those who do not use Helm.
func manifests(t *testing.T) map[string]string {
	t.Helper()
	files, err := rendered(t, read(t, manifestsDir+"/values.yaml"), "kubectl")
	if err != nil {
		t.Fatal(err)
	}
	delete(files, "NOTES.txt")
	delete(files, "status.yaml") // for helm test
	for name, text := range files {
		if trailing.MatchString(text) {
			t.Errorf("%s has lines that end in spaces", name)
		}
		files[name] = "# Made from " + chartDir + " with values.yaml by `make manifests`.\n" + text
	}
	return files
}

func TestManifests(t *testing.T) {
	t.Parallel()
	files := manifests(t)
	wantFleet(t, decoded(t, files))
	if *update {
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(root, manifestsDir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := map[string]string{}
	paths, err := filepath.Glob(filepath.Join(root, manifestsDir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if name := filepath.Base(path); name != "values.yaml" && name != "kustomization.yaml" {
			got[name] = read(t, manifestsDir+"/"+name)
		}
	}
	if diff := cmp.Diff(files, got); diff != "" {
		t.Errorf("the chart makes other manifests (-), run make manifests: %s", diff)
	}
}

// The page says how to make the Secrets without which the manifests' pods do not start.
func TestManifestsSecrets(t *testing.T) {
	t.Parallel()
	page, needed := read(t, "docs/kubernetes.md"), map[string]bool{}
	for _, w := range decoded(t, manifests(t)).workloads {
		for _, e := range w.container().Env {
			if from := e.ValueFrom; from != nil && from.SecretKeyRef != nil {
				needed[from.SecretKeyRef.Name] = true
				if line := "\nkubectl create secret generic " + from.SecretKeyRef.Name + " --from-literal=" + from.SecretKeyRef.Key + "="; !strings.Contains(page, line) {
					t.Errorf("%s needs %s of the Secret %s: docs/kubernetes.md has no line %q", w.name, from.SecretKeyRef.Key, from.SecretKeyRef.Name, line)
				}
			}
		}
	}
	if len(needed) != 1 {
		t.Errorf("the manifests need %v, want the Secret with the password of Redis", needed)
	}
}

// kustomization is what of a kustomization.yaml is used here.
type kustomization struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Resources  []string `json:"resources"`
	Images     []struct {
		Name    string `json:"name"`
		NewName string `json:"newName"`
		NewTag  string `json:"newTag"`
	} `json:"images"`
}

// The kustomization names every manifest but the example job, and an image that
// is used.
func TestKustomization(t *testing.T) {
	t.Parallel()
	var k kustomization
	if err := strict.UnmarshalStrict([]byte(read(t, manifestsDir+"/kustomization.yaml")), &k); err != nil {
		t.Fatal(err)
	}
	files := manifests(t)
	var want []string
	for name := range files {
		if name != "enqueue.yaml" {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	slices.Sort(k.Resources)
	if k.Kind != "Kustomization" || !slices.Equal(k.Resources, want) {
		t.Errorf("resources: got %v, want %v", k.Resources, want)
	}
	for _, w := range decoded(t, files).workloads {
		name, _, _ := strings.Cut(w.container().Image, ":")
		if w.part != "redis" && (len(k.Images) != 1 || name != k.Images[0].Name) {
			t.Errorf("%s: image %s is not replaced by %v", w.name, w.container().Image, k.Images)
		}
	}
}
