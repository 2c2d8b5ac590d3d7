// Package testsleep suspends one process as if its machine slept. The wall clock and CLOCK_BOOTTIME continue, and
// CLOCK_MONOTONIC stops for that process. After SIGSTOP alone it would have advanced, so SIGSTOP does not show how a
// program behaves after a sleep.
//
// The package patches the function of the vDSO with which the process reads its clocks, in this process only. Kernel
// timers do not stop, so a wait of the process may end early. Go then checks its clock, and waits for the rest.
package testsleep
