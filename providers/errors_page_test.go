package providers

import (
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestErrorsPage holds the table of docs/errors.md against the code.
func TestErrorsPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	var classes []Class
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|[^|]*\\| (yes|no) \\|").FindAllStringSubmatch(string(page), -1) {
		class := Class(row[1])
		classes = append(classes, class)
		if (row[2] == "yes") != class.Retryable() {
			t.Errorf("%s, made again: the page says %s, the code %v", class, row[2], class.Retryable())
		}
	}
	if diff := cmp.Diff(Classes, classes); diff != "" {
		t.Errorf("classes of the page (-code +page):\n%s", diff)
	}
}
