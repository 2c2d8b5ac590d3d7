package collect

import "time"

func init() { askGrace = 20 * time.Millisecond }
