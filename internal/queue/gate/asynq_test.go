package gate

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// asynq.go describes the version of asynq that is built in: its scripts, which TestScriptShapes
// compares, its log lines and its encoding of tasks. When this test fails after an upgrade,
// read what changed in asynq for each entry of asynq.go, then set AsynqVersion.
func TestAsynqIsAsRead(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}} {{.Dir}}", "github.com/hibiken/asynq").Output()
	if err != nil {
		t.Fatal(err)
	}
	version, dir, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if version != AsynqVersion {
		t.Errorf("asynq %s is built in; asynq.go was written for %s", version, AsynqVersion)
	}
	read := func(names ...string) string {
		text, err := os.ReadFile(filepath.Join(append([]string{dir}, names...)...))
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	processor := read("processor.go")
	for _, line := range KnownLines {
		if !strings.Contains(processor, `"`+line) {
			t.Errorf("asynq logs no line that begins with %q", line)
		}
	}
	messages := read("internal", "proto", "asynq.proto")
	_, message, _ := strings.Cut(messages, "message TaskMessage {")
	message, _, _ = strings.Cut(message, "\n};")
	for name, number := range map[string]int{
		"bytes payload": messagePayload, "string id": messageID, "string queue": messageQueue,
		"int64 deadline": messageDeadline, "map<string, string> headers": messageHeaders,
	} {
		if !strings.Contains(message, fmt.Sprintf("%s = %d;", name, number)) {
			t.Errorf("a task's message has no field %s = %d", name, number)
		}
	}
	keys := read("internal", "base", "base.go")
	for _, name := range []string{"servers", "workers", "queues"} {
		if !strings.Contains(keys, `"`+asynqKeys+name) {
			t.Errorf("asynq has no key %s%s", asynqKeys, name)
		}
	}
	days := regexp.MustCompile(`statsTTL\s*= (\d+) \* 24 \* time\.Hour`).FindStringSubmatch(read("internal", "rdb", "rdb.go"))
	if len(days) != 2 || days[1] != fmt.Sprint(countDays-1) {
		t.Errorf("asynq keeps counts for %v days, want %d", days, countDays-1)
	}
}
