package redistest

import "testing"

// A server that starts from a copy has what it held then, and nothing of what came later, with
// and without an append-only file.
func TestServerStartsFromAnOlderCopy(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"dump":             nil,
		"append-only file": {"--appendonly", "yes", "--appendfsync", "always"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			s := New(t, args...)
			client := s.Client()
			push := func(n int) {
				for range n {
					if err := client.RPush(ctx, "list", "element").Err(); err != nil {
						t.Fatal(err)
					}
				}
			}
			push(10)
			first := s.Copy()
			push(20)
			second := s.Copy()
			push(30)
			for _, c := range []struct {
				copy Copy
				want int64
			}{{second, 30}, {first, 10}} {
				s.Kill()
				if !s.Revert(c.copy) {
					t.Fatal("the copy cannot be used")
				}
				s.Start()
				if n, err := client.LLen(ctx, "list").Result(); err != nil || n != c.want {
					t.Errorf("after a start from a copy of %d elements there are %d, %v", c.want, n, err)
				}
			}
		})
	}
}
