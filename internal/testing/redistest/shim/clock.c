// A preloaded library that adds an offset to the wall clock of a redis-server. The offset, in
// microseconds, is the first 8 bytes of the file that EVALFLEET_TEST_CLOCK names. The monotonic
// clock is left alone, as when an administrator sets the clock of a machine.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile int64_t *shared;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
  real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
  const char *path = getenv("EVALFLEET_TEST_CLOCK");
  int fd = path ? open(path, O_RDONLY) : -1;
  if (fd < 0) return;
  void *page = mmap(NULL, 8, PROT_READ, MAP_SHARED, fd, 0);
  if (page != MAP_FAILED) shared = page;
}

int clock_gettime(clockid_t id, struct timespec *t) {
  if (!real_clock_gettime) begin();
  int failed = real_clock_gettime(id, t);
  if (failed || !shared || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)) return failed;
  int64_t us = (int64_t)t->tv_sec * 1000000 + t->tv_nsec / 1000 + *shared;
  t->tv_sec = us / 1000000;
  t->tv_nsec = us % 1000000 * 1000;
  return 0;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
  (void)zone;
  struct timespec now;
  int failed = clock_gettime(CLOCK_REALTIME, &now);
  if (failed) return failed;
  t->tv_sec = now.tv_sec;
  t->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *t) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (t) *t = now.tv_sec;
  return now.tv_sec;
}
