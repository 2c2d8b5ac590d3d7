package testsleep

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// program replaces clock_gettime in the vDSO. It calls the kernel, and subtracts the seconds and nanoseconds that
// follow it from CLOCK_MONOTONIC.
var program = []byte{
	0xb8, 0xe4, 0x00, 0x00, 0x00, // mov $228, %eax: clock_gettime
	0x0f, 0x05, // syscall
	0x83, 0xff, 0x01, // cmp $1, %edi: CLOCK_MONOTONIC
	0x75, 0x22, // jne done
	0x48, 0x8b, 0x0d, 0x1c, 0x00, 0x00, 0x00, // mov seconds(%rip), %rcx
	0x48, 0x29, 0x0e, // sub %rcx, (%rsi)
	0x48, 0x8b, 0x0d, 0x1a, 0x00, 0x00, 0x00, // mov nanoseconds(%rip), %rcx
	0x48, 0x29, 0x4e, 0x08, // sub %rcx, 8(%rsi)
	0x79, 0x0b, // jns done
	0x48, 0x81, 0x46, 0x08, 0x00, 0xca, 0x9a, 0x3b, // addq $1000000000, 8(%rsi)
	0x48, 0xff, 0x0e, // decq (%rsi)
	0xc3, // done: ret
}

// asleep records how long each process has been suspended.
var asleep struct {
	sync.Mutex
	by map[int]time.Duration
}

// Suspend stops a child of the test, and returns a function that lets it continue. The child's CLOCK_MONOTONIC does
// not advance in between.
func Suspend(pid int) (wake func() error, err error) {
	base, clock, err := vdso(pid)
	if err != nil {
		return nil, fmt.Errorf("suspend process %d: %w", pid, err)
	}
	if err := stop(pid, base); err != nil {
		return nil, fmt.Errorf("suspend process %d: %w", pid, err)
	}
	began := time.Now()
	return func() error {
		asleep.Lock()
		defer asleep.Unlock()
		if asleep.by == nil {
			asleep.by = map[int]time.Duration{}
		}
		asleep.by[pid] += time.Since(began)
		if err := setBack(pid, clock, asleep.by[pid]); err != nil {
			return fmt.Errorf("wake process %d: %w", pid, errors.Join(err, syscall.Kill(pid, syscall.SIGKILL)))
		}
		return syscall.Kill(pid, syscall.SIGCONT)
	}, nil
}

// stop stops a process at a moment when none of its threads reads a clock.
func stop(pid int, vdso uint64) error {
	for range 1000 {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			return err
		}
		if reads, err := readsClock(pid, vdso); err != nil || !reads {
			return err
		}
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return errors.New("it reads its clock all the time")
}

// readsClock waits until every thread of a process is stopped, and reports whether one was executing the vDSO.
func readsClock(pid int, vdso uint64) (bool, error) {
	for {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
		if err != nil || len(threads) == 0 {
			return false, errors.Join(errors.New("it has no threads"), err)
		}
		stopped, reads := true, false
		for _, thread := range threads {
			stat, err := os.ReadFile(thread + "/stat")
			if err != nil {
				return false, err
			}
			rest := string(stat[bytes.LastIndexByte(stat, ')')+1:])
			if state := strings.Fields(rest)[0]; state != "T" && state != "t" {
				stopped = false
				break
			}
			at, err := os.ReadFile(thread + "/syscall")
			if err != nil {
				return false, err
			}
			fields := strings.Fields(string(at))
			var pc uint64
			if _, err := fmt.Sscanf(fields[len(fields)-1], "0x%x", &pc); err != nil {
				return false, fmt.Errorf("%s/syscall: %w", thread, err)
			}
			reads = reads || pc >= vdso && pc < vdso+vdsoSize
		}

		if stopped {
			return reads, nil
		}
		time.Sleep(time.Millisecond)
	}
}

// vdsoSize is larger than any vDSO.
const vdsoSize = 16 << 10

// vdso returns the addresses of a process's vDSO and of clock_gettime in it.
func vdso(pid int) (base, clock uint64, err error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, 0, err
	}
	var end uint64
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			if _, err := fmt.Sscanf(line, "%x-%x", &base, &end); err != nil {
				return 0, 0, err
			}
		}
	}

	if base == 0 {
		return 0, 0, errors.New("it has no vDSO")
	}
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return 0, 0, err
	}
	defer memory.Close()
	image := make([]byte, end-base)
	if _, err := memory.ReadAt(image, int64(base)); err != nil {
		return 0, 0, err
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, 0, fmt.Errorf("vDSO: %w", err)
	}

	symbols, err := file.DynamicSymbols()
	if err != nil {
		return 0, 0, fmt.Errorf("vDSO: %w", err)
	}

	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" && s.Size >= uint64(len(program)+16) {
			return base, base + s.Value, nil
		}
	}

	return 0, 0, errors.New("its vDSO has no clock_gettime, or a short one")
}

// setBack sets back CLOCK_MONOTONIC of a stopped process.
func setBack(pid int, clock uint64, by time.Duration) error {
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	code := binary.LittleEndian.AppendUint64(bytes.Clone(program), uint64(by/time.Second))
	code = binary.LittleEndian.AppendUint64(code, uint64(by%time.Second))
	_, err = memory.WriteAt(code, int64(clock))
	return errors.Join(err, memory.Close())
}
