// A server preloaded with this sees another wall clock and a slower disk. The file named by
// TIERLOCK_SHIM holds two numbers of 64 bits, which its test may change at any time: what is
// added to the wall clock, and what each fdatasync takes longer, both in microseconds.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *told;

__attribute__((constructor)) static void begin(void) {
  const char *name = getenv("TIERLOCK_SHIM");
  int fd = name ? open(name, O_RDONLY) : -1;
  if (fd < 0) return;
  void *page = mmap(NULL, 16, PROT_READ, MAP_SHARED, fd, 0);
  if (page != MAP_FAILED) told = page;
  close(fd);
}

static int64_t wall(void) {
  struct timespec ts;
  syscall(SYS_clock_gettime, CLOCK_REALTIME, &ts);
  return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000 + (told ? told[0] : 0);
}

int gettimeofday(struct timeval *tv, void *zone) {
  (void)zone;
  int64_t us = wall();
  tv->tv_sec = us / 1000000;
  tv->tv_usec = us % 1000000;
  return 0;
}

time_t time(time_t *at) {
  time_t s = wall() / 1000000;
  if (at) *at = s;
  return s;
}

int fdatasync(int fd) {
  int64_t us = told ? told[1] : 0;
  if (us > 0) {
    struct timespec ts = {us / 1000000, us % 1000000 * 1000};
    syscall(SYS_nanosleep, &ts, NULL);
  }
  return syscall(SYS_fdatasync, fd);
}
