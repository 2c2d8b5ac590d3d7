package check

import (
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	strict "sigs.k8s.io/yaml"
)

// release is the part of .goreleaser.yaml that names things of this repository.
type release struct {
	Before struct{ Hooks []string }
	Builds []struct {
		Main                string
		Env, Flags, Ldflags []string
		Goos, Goarch        []string
		Hooks               struct{ Post []string }
	}
	Archives []struct {
		Files []struct{ Src, Dst string }
	}
	Sboms     []struct{ Cmd string }
	Checksum  extra
	Release   extra
	DockersV2 []struct {
		Images, Platforms []string
		Dockerfile        string
		BuildArgs         map[string]string `json:"build_args"`
		Labels            map[string]string
	} `json:"dockers_v2"`
	HomebrewCasks []struct {
		Manpages    []string
		Completions map[string]string
	} `json:"homebrew_casks"`
}

// extra is a part of .goreleaser.yaml that takes further files.
type extra struct {
	ExtraFiles []struct{ Glob string } `json:"extra_files"`
}

func parsed[T any](t *testing.T, name string) T {
	t.Helper()
	var of T
	if err := strict.Unmarshal([]byte(read(t, name)), &of); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return of
}

// makeVariable is the value of a variable of the Makefile.
func makeVariable(t *testing.T, name string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + name + ` := (\S+)$`).FindStringSubmatch(read(t, "Makefile"))
	if m == nil {
		t.Fatalf("the Makefile sets no %s", name)
	}
	return m[1]
}

// A release has a wheel and an npm package of every program that it builds, with checksums.
func TestReleasePackages(t *testing.T) {
	t.Parallel()
	of := parsed[release](t, ".goreleaser.yaml")
	build := of.Builds[0]
	globs := []string{"dist/wheels/*.whl", "dist/npm/*.tgz"}
	if len(build.Hooks.Post) != len(globs) {
		t.Fatalf("hooks %q, want those that make a wheel and an npm package", build.Hooks.Post)
	}
	for i, line := range build.Hooks.Post {
		hook := strings.Fields(line)
		script, flags := hook[1], strings.Join(hook[2:], " ")
		const want = `--program "{{ .Path }}" --os {{ .Os }} --arch {{ .Arch }} --version {{ .Version }} --time {{ .CommitTimestamp }} --out `
		if flags != want+path.Dir(globs[i]) {
			t.Errorf("%s has the flags %s, want %s", script, flags, want+path.Dir(globs[i]))
		}

		systems := read(t, script)
		for _, system := range build.Goos {
			for _, arch := range build.Goarch {
				if !strings.Contains(systems, `    ("`+system+`", "`+arch+`"): `) {
					t.Errorf("%s does not know %s/%s", script, system, arch)
				}
			}
		}
	}
	for part, files := range map[string]extra{"checksum": of.Checksum, "release": of.Release} {
		var got []string
		for _, file := range files.ExtraFiles {
			got = append(got, file.Glob)
		}
		if !slices.Equal(got, globs) {
			t.Errorf("%s has the files %v, want %v", part, got, globs)
		}
	}
}

// What a release is made of exists, and is built as the image is.
func TestReleaseFiles(t *testing.T) {
	t.Parallel()
	of, makefile, dockerfile := parsed[release](t, ".goreleaser.yaml"), read(t, "Makefile"), read(t, "deploy/Dockerfile")
	for _, hook := range of.Before.Hooks {
		if target, ok := strings.CutPrefix(hook, "make "); !ok || !strings.Contains(makefile, "\n"+target+": ") {
			t.Errorf("hook %q is no target of the Makefile", hook)
		}
	}
	b := of.Builds[0]
	// The image's program is built without a repository, so the build passes the version.
	line := b.Env[0] + " GOOS=$TARGETOS GOARCH=$TARGETARCH go build " + strings.Join(b.Flags, " ") + ` -ldflags "` + strings.Join(b.Ldflags, " ") + ` -X main.stamp=$VERSION" -o /out/evalfleet ` + b.Main
	if of, err := buildLine(dockerfile); err != nil || of != line {
		t.Errorf("a release builds with %s, deploy/Dockerfile with %s, %v", line, of, err)
	}
	if diff := cmp.Diff([][]string{{"linux", "darwin", "windows"}, {"amd64", "arm64"}}, [][]string{b.Goos, b.Goarch}); diff != "" {
		t.Error(diff)
	}
	made := map[string]bool{} // files in bin/ that the Makefile's extras writes
	for _, shell := range []string{"evalfleet.bash", "_evalfleet", "evalfleet.fish", "evalfleet.ps1"} {
		if !strings.Contains(makefile, "> bin/completions/"+shell+"\n") {
			t.Errorf("make extras writes no bin/completions/%s", shell)
		}
		made["completions/"+shell] = true
	}
	dir := t.TempDir()
	if out, err := exec.Command(program(t), "man", dir).CombinedOutput(); err != nil {
		t.Fatalf("man: %v: %s", err, out)
	}
	pages, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		made["man/"+page.Name()] = true
	}
	folders := map[string]bool{}
	for _, f := range of.Archives[0].Files {
		if strings.HasPrefix(f.Src, "bin/") {
			folders[f.Dst] = true
		} else if found, _ := filepath.Glob(filepath.Join(root, f.Src)); len(found) == 0 {
			t.Errorf("there is no %s for the archives", f.Src)
		}
	}
	cask := of.HomebrewCasks[0]
	in := append(slices.Collect(maps.Values(cask.Completions)), cask.Manpages...)
	in = append(in, "completions/evalfleet.ps1") // which Homebrew does not install
	slices.Sort(in)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(made)), in); diff != "" {
		t.Errorf("manual pages and completions, and what the cask installs (-made +cask):\n%s", diff)
	}
	for _, path := range in {
		if !folders[filepath.Dir(path)] {
			t.Errorf("the archives have no folder for %s", path)
		}
	}
	image := of.DockersV2[0]
	if image.Dockerfile != "deploy/Dockerfile" || !strings.Contains(dockerfile, " AS "+image.BuildArgs["PROGRAM"]+"\n") {
		t.Errorf("the image is made from %s, stage %s", image.Dockerfile, image.BuildArgs["PROGRAM"])
	}
	if image.BuildArgs["VERSION"] != image.Labels["org.opencontainers.image.version"] {
		t.Errorf("the image is told version %q, its label says %q", image.BuildArgs["VERSION"], image.Labels["org.opencontainers.image.version"])
	}
	for name, value := range image.Labels { // those that each build knows
		if !strings.Contains(value, "{{") && !strings.Contains(dockerfile, name+`="`+value+`"`) {
			t.Errorf("the image of a release has the label %s=%q, an image of deploy/Dockerfile has not", name, value)
		}
	}
	if want := "../.tools/cyclonedx-gomod-" + makeVariable(t, "CYCLONEDX_VERSION"); of.Sboms[0].Cmd != want {
		t.Errorf("SBOMs are made by %s, want %s", of.Sboms[0].Cmd, want)
	}
}

// workflow is a file of .github/workflows.
type workflow struct {
	Permissions map[string]string
	Jobs        map[string]struct {
		Needs string // the job before it
		Steps []struct{ Uses, Run string }
	}
}

// inOrder returns the names of the jobs of a workflow, each after the one that it needs.
func (w workflow) inOrder() (names []string) {
	for len(names) < len(w.Jobs) {
		before := len(names)
		for _, name := range slices.Sorted(maps.Keys(w.Jobs)) {
			needs := w.Jobs[name].Needs
			if !slices.Contains(names, name) && (needs == "" || slices.Contains(names, needs)) {
				names = append(names, name)
			}
		}
		if len(names) == before {
			return names // a job that is missing is needed
		}
	}
	return names
}

// releases is the Makefile's target that the workflow calls, with the pinned GoReleaser.
var releases = regexp.MustCompile(`(?m)^release: \$\(GORELEASER\) .*\n\t\$< release --clean --release-notes "\$\(NOTES\)"$`)

var pinnedAction = regexp.MustCompile(`^[\w.-]+/[\w.-]+@[0-9a-f]{40}$`)

// A tag is released once .ci/run is green, by the tools that make snapshot tries, with
// actions that cannot change.
func TestWorkflows(t *testing.T) {
	t.Parallel()
	if !releases.MatchString(read(t, "Makefile")) {
		t.Errorf("the Makefile has no target like %s", releases)
	}
	for name, want := range map[string][]string{
		"ci":      {".ci/run"},
		"release": {".ci/run", `make release NOTES="$RUNNER_TEMP/notes.md"`},
	} {
		of := parsed[workflow](t, ".github/workflows/"+name+".yaml")
		if diff := cmp.Diff(map[string]string{"contents": "read"}, of.Permissions); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		var runs []string
		for _, job := range of.inOrder() {
			for _, step := range of.Jobs[job].Steps {
				if step.Uses != "" && !pinnedAction.MatchString(step.Uses) {
					t.Errorf("%s: %s is not pinned to a commit", name, step.Uses)
				}
				if slices.Contains(want, step.Run) {
					runs = append(runs, step.Run)
				}
			}
		}
		if diff := cmp.Diff(want, runs); diff != "" {
			t.Errorf("%s runs, in this order (-want +got):\n%s", name, diff)
		}
	}
}

var newest = regexp.MustCompile(`(?m)^## (\d+\.\d+\.\d+)( \(not released yet\))?$`)

// Chart, image and changelog have one version, and Artifact Hub is told the truth.
func TestChartVersion(t *testing.T) {
	t.Parallel()
	m := newest.FindStringSubmatch(read(t, "CHANGELOG.md"))
	if m == nil {
		t.Fatal("the changelog begins with no version")
	}
	type chart struct {
		Version, AppVersion string
		Annotations         map[string]string
	}
	of := parsed[chart](t, "deploy/helm/evalfleet/Chart.yaml")
	if of.Version != m[1] || of.AppVersion != m[1] {
		t.Errorf("the chart is %s for program %s, the changelog begins with %s", of.Version, of.AppVersion, m[1])
	}
	type values struct {
		Image struct{ Repository, Tag string }
		Redis struct {
			Image struct{ Repository, Tag string }
		}
	}
	v := parsed[values](t, "deploy/helm/evalfleet/values.yaml")
	if v.Image.Tag != "" || v.Image.Repository != parsed[release](t, ".goreleaser.yaml").DockersV2[0].Images[0] {
		t.Errorf("the chart runs image %s:%s, which is not the release's", v.Image.Repository, v.Image.Tag)
	}
	var images []struct{ Name, Image string }
	if err := strict.Unmarshal([]byte(of.Annotations["artifacthub.io/images"]), &images); err != nil {
		t.Fatal(err)
	}
	want := []struct{ Name, Image string }{{"evalfleet", v.Image.Repository + ":" + of.AppVersion}, {"redis", v.Redis.Image.Repository + ":" + v.Redis.Image.Tag}}
	if diff := cmp.Diff(want, images); diff != "" {
		t.Error(diff)
	}
	for _, list := range []string{"artifacthub.io/links", "artifacthub.io/changes"} {
		var entries []any
		if err := strict.Unmarshal([]byte(of.Annotations[list]), &entries); err != nil || len(entries) == 0 {
			t.Errorf("%s: %d entries, %v", list, len(entries), err)
		}
	}
	if !strings.HasPrefix(read(t, "LICENSE"), of.Annotations["artifacthub.io/license"]+" License\n") {
		t.Errorf("license %q is not that of LICENSE", of.Annotations["artifacthub.io/license"])
	}
}

// Issue forms are valid: GitHub shows no others.
func TestIssueForms(t *testing.T) {
	t.Parallel()
	type form struct {
		Name, Description string
		Body              []struct {
			Type, ID   string
			Attributes struct{ Label, Value string }
		}
	}
	for _, name := range []string{"bug", "feature"} {
		of := parsed[form](t, ".github/ISSUE_TEMPLATE/"+name+".yaml")
		if of.Name == "" || of.Description == "" || len(of.Body) == 0 {
			t.Errorf("%s lacks a name, a description or a body", name)
		}
		ids := map[string]bool{}
		for _, field := range of.Body {
			if field.Type == "markdown" && field.Attributes.Value != "" {
				continue
			}
			if !slices.Contains([]string{"input", "textarea"}, field.Type) || field.ID == "" || ids[field.ID] || field.Attributes.Label == "" {
				t.Errorf("%s: field %+v has no kind, id or label, or an id twice", name, field)
			}
			ids[field.ID] = true
		}
	}
}

// Every page of the documentation is in the site's list once.
func TestSite(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	var want, listed []string
	for _, page := range pages {
		want = append(want, strings.TrimSuffix(filepath.Base(page), ".md"))
	}
	for _, m := range regexp.MustCompile(`\bpage\('([^']+)'`).FindAllStringSubmatch(read(t, "tools/site/config.mjs"), -1) {
		listed = append(listed, m[1])
	}
	slices.Sort(listed)
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Errorf("pages (-docs +site):\n%s", diff)
	}
}
