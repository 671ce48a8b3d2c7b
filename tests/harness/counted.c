/* Preloaded into a process: counts its fsyncs in the first word of the file that COUNTS_FILE names. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic uint64_t *syncs;

__attribute__((constructor)) static void open_counts(void)
{
    const char *path = getenv("COUNTS_FILE");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *page = mmap(NULL, sizeof *syncs, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page != MAP_FAILED)
        syncs = page;
    close(file);
}

static int counted(const char *name, int file)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    if (syncs)
        atomic_fetch_add(syncs, 1);
    return real(file);
}

int fsync(int file)
{
    return counted("fsync", file);
}

int fdatasync(int file)
{
    return counted("fdatasync", file);
}
