// Package testsleep suspends one process as a machine that sleeps suspends all of them. Other
// processes, the wall clock and CLOCK_BOOTTIME continue meanwhile, and CLOCK_MONOTONIC stands
// still for the process. After SIGSTOP alone it has advanced, so SIGSTOP does not show what a
// program believes about time after a sleep.
//
// The package changes the function of the vDSO by which the process reads its clocks, in this
// process alone. Timers of the kernel are not stopped: a wait in which the process is may end
// early. Go then looks at its clock, and waits for the rest.
package testsleep
