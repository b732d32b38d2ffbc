/*
 * An LD_PRELOAD object that records, and on demand spoils, what a process does to the files below one directory.
 *
 *   SEMEL_SHIM_DIR          the directory; it must exist when the process starts
 *   SEMEL_SHIM_RECORD       the recording, appended to; none when unset
 *   SEMEL_SHIM_MARKS        a file outside of the directory: each write to it enters the recording as a mark, also by
 *                           a standard output that was directed to it
 *   SEMEL_SHIM_FAULT        rules, separated by '|' or a new line (the grammar stands above parse_rule)
 *   SEMEL_SHIM_CONTROL      a file of rules, read again whenever it changes; it replaces the rules given before
 *   SEMEL_SHIM_IGNORE_SYNC  1: fdatasync returns 0, does nothing and leaves no record
 *
 * Order: a call that changes a file or a name runs and is recorded under one mutex, so the recording is the order in
 * which things happened. A sync leaves two records, before and after, and runs outside of the mutex.
 *
 * Limits: no mmap, O_SYNC, stdio or io_uring (writes by mmap are not seen; O_SYNC does not count as a sync). A rename
 * or link over the border of the directory, or a failure to record, ends the process: a hole would look like a proof.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define SLOTS_MAX 65536
#define PATH_SIZE 240
#define RULES_MAX 16
#define RULES_TEXT_SIZE 4096
#define PARTS_MAX 1000
#define HANG_STEP_NS 2000000
#define FORMAT_VERSION 1
#define RECORD_MAGIC 0x524d4553u /* "SEMR" */

/* ---- the recording: a header, then path, target and data; tests/src/recording.rs reads it ---- */

enum record_kind {
    RECORD_START = 1, RECORD_OPEN, RECORD_CLOSE, RECORD_WRITE, RECORD_TRUNCATE, RECORD_ALLOCATE, RECORD_SYNC_BEGIN,
    RECORD_SYNC_END, RECORD_SYNC_RANGE, RECORD_RENAME, RECORD_UNLINK, RECORD_MKDIR, RECORD_RMDIR, RECORD_LINK,
    RECORD_MARK, RECORD_FAULT
};

enum call {
    CALL_WRITE = 1, CALL_PWRITE, CALL_FDATASYNC, CALL_FSYNC, CALL_SYNC_FILE_RANGE, CALL_FTRUNCATE, CALL_RENAME,
    CALL_OPEN, CALL_READ, CALL_PREAD, CALL_UNLINK, CALL_MKDIR, CALL_FALLOCATE, CALL_RMDIR, CALL_LINK, CALL_END
};

static const char *const call_names[CALL_END] = {
    "", "write", "pwrite", "fdatasync", "fsync", "sync_file_range", "ftruncate", "rename",
    "open", "read", "pread", "unlink", "mkdir", "fallocate", "rmdir", "link"
};

struct record {
    uint32_t magic;
    uint16_t kind;
    uint16_t call;
    uint32_t thread;
    uint16_t path_size;
    uint16_t target_size;
    uint64_t handle;
    uint64_t offset;
    uint64_t size;
    int64_t result; /* what the call returned, or -errno */
    uint64_t flags;
    uint64_t data_size;
};

enum { OPEN_CREATED = 1, OPEN_TRUNCATED = 2, OPEN_DIRECTORY = 4 };

/* ---- state ---- */

enum slot_kind { SLOT_FREE, SLOT_FILE, SLOT_DIRECTORY, SLOT_MARKS };

struct slot {
    _Atomic uint8_t kind;
    bool append;
    uint64_t handle;
    dev_t device;
    ino_t inode;
    char path[PATH_SIZE];
};

enum action { ACT_NONE, ACT_FAIL, ACT_HANG, ACT_IGNORE };

struct rule {
    enum call call;
    char path[PATH_SIZE];
    uint64_t after;
    uint64_t times;
    uint64_t seen;
    enum action action;
    int error;
    bool is_short;
};

struct verdict {
    enum action action;
    int error;
    bool is_short;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct slot slots[SLOTS_MAX];
static bool is_active;
static char root[PATH_MAX];
static size_t root_size;
static char marks_path[PATH_MAX];
static int record_fd = -1;
static _Atomic uint32_t last_id;

static char control_path[PATH_MAX];
static struct stat control_seen;
static _Atomic bool is_armed;
static struct rule rules[RULES_MAX];
static unsigned rules_count;
static uint64_t rules_generation;
static bool is_fdatasync_ignored;

static void die(const char *what, const char *detail) {
    char text[PATH_MAX + 200];
    int size = snprintf(text, sizeof text, "semel shim: %s: %s\n", what, detail);
    syscall(SYS_write, 2, text, (size_t)size < sizeof text ? (size_t)size : sizeof text - 1);
    abort();
}

static void lock(void) { pthread_mutex_lock(&mutex); }
static void unlock(void) { pthread_mutex_unlock(&mutex); }
static void unlock_in_child(void) { pthread_mutex_init(&mutex, NULL); }

/* Unique over the processes that share a recording. */
static uint64_t next_id(void) { return (uint64_t)getpid() << 32 | ++last_id; }

/* Appends one record; its data is the first `data_size` bytes of `parts`. The caller holds the mutex. */
static void record(struct record head, const char *path, const char *target, const struct iovec *parts, int count) {
    if (record_fd < 0)
        return;
    int saved = errno;
    struct iovec out[3 + PARTS_MAX];
    int used = 3;
    head.magic = RECORD_MAGIC;
    head.thread = (uint32_t)syscall(SYS_gettid);
    head.path_size = (uint16_t)strlen(path);
    head.target_size = (uint16_t)strlen(target);
    out[0] = (struct iovec){ &head, sizeof head };
    out[1] = (struct iovec){ (void *)path, head.path_size };
    out[2] = (struct iovec){ (void *)target, head.target_size };
    uint64_t left = head.data_size;
    for (int i = 0; i < count && left > 0; i++) {
        size_t size = parts[i].iov_len < left ? parts[i].iov_len : left;
        out[used++] = (struct iovec){ parts[i].iov_base, size };
        left -= size;
    }
    ssize_t want = (ssize_t)(sizeof head + head.path_size + head.target_size + head.data_size);
    if (syscall(SYS_writev, record_fd, out, used) != want)
        die("cannot write the recording", strerror(errno));
    errno = saved;
}

static int64_t result_of(long rc) { return rc < 0 ? -(int64_t)errno : rc; }

/* ---- paths ---- */

/* The part below the directory ("." for itself), or NULL. */
static const char *below_root(const char *absolute) {
    if (strncmp(absolute, root, root_size) != 0)
        return NULL;
    if (absolute[root_size] == '\0')
        return ".";
    return absolute[root_size] == '/' ? absolute + root_size + 1 : NULL;
}

static bool path_of_fd(int fd, char out[PATH_MAX]) {
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, out, PATH_MAX - 1);
    out[size < 0 ? 0 : size] = '\0';
    return size > 0;
}

/* The absolute path of a name, its parent resolved and its last component as given. */
static bool resolve(int dirfd, const char *path, char out[PATH_MAX]) {
    char parent[PATH_MAX];
    size_t size = strlen(path);
    while (size > 1 && path[size - 1] == '/')
        size--;
    if (size == 0 || size >= sizeof parent)
        return false;
    memcpy(parent, path, size);
    parent[size] = '\0';
    char *slash = strrchr(parent, '/');
    const char *name = slash ? slash + 1 : parent;
    bool is_whole = *name == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
    char last[NAME_MAX + 1] = "";
    if (!is_whole) {
        if (strlen(name) > NAME_MAX)
            return false;
        strcpy(last, name);
        if (slash)
            slash[slash == parent] = '\0';
        else
            strcpy(parent, ".");
    }
    int fd = (int)syscall(SYS_openat, dirfd, parent, O_PATH | O_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool found = path_of_fd(fd, out);
    syscall(SYS_close, fd);
    if (!found || is_whole)
        return found;
    size_t used = strcmp(out, "/") == 0 ? 0 : strlen(out);
    if (used + 1 + strlen(last) >= PATH_MAX)
        return false;
    out[used] = '/';
    strcpy(out + used + 1, last);
    return true;
}

/* The name below the directory, in `buffer`, or NULL; errno stays. */
static const char *inside(int dirfd, const char *path, char buffer[PATH_MAX]) {
    int saved = errno;
    const char *name = is_active && resolve(dirfd, path, buffer) ? below_root(buffer) : NULL;
    if (name && strlen(name) >= PATH_SIZE)
        die("path too long", name);
    errno = saved;
    return name;
}

/* ---- descriptors ---- */

static bool in_range(int fd) { return fd >= 0 && fd < SLOTS_MAX; }

static uint8_t kind_of(int fd) {
    return in_range(fd) ? atomic_load_explicit(&slots[fd].kind, memory_order_acquire) : SLOT_FREE;
}

static void forget(int fd) {
    if (in_range(fd))
        atomic_store_explicit(&slots[fd].kind, SLOT_FREE, memory_order_release);
}

/* glibc closes some descriptors behind our back (closedir), so a number may mean another file by now. */
static bool is_still(int fd) {
    int saved = errno;
    struct stat now;
    bool same = kind_of(fd) != SLOT_FREE && fstat(fd, &now) == 0 && now.st_dev == slots[fd].device &&
                now.st_ino == slots[fd].inode;
    if (!same)
        forget(fd);
    errno = saved;
    return same;
}

/* Enters a descriptor that was just opened. The caller holds the mutex. */
static void track(int fd, int flags, uint64_t open_flags) {
    int saved = errno;
    char absolute[PATH_MAX];
    struct stat now;
    forget(fd);
    if (path_of_fd(fd, absolute) && fstat(fd, &now) == 0 && now.st_nlink > 0) {
        const char *path = below_root(absolute);
        bool is_marks = marks_path[0] && strcmp(absolute, marks_path) == 0;
        if (path || is_marks) {
            if (!in_range(fd) || (path && strlen(path) >= PATH_SIZE))
                die("descriptor or path out of range", absolute);
            struct slot *slot = &slots[fd];
            slot->append = flags & O_APPEND;
            slot->handle = next_id();
            slot->device = now.st_dev;
            slot->inode = now.st_ino;
            strcpy(slot->path, is_marks ? "" : path);
            uint8_t kind = is_marks ? SLOT_MARKS : S_ISDIR(now.st_mode) ? SLOT_DIRECTORY : SLOT_FILE;
            if (kind == SLOT_DIRECTORY)
                open_flags |= OPEN_DIRECTORY;
            if (!is_marks)
                record((struct record){ .kind = RECORD_OPEN, .handle = slot->handle, .flags = open_flags }, path, "",
                       NULL, 0);
            atomic_store_explicit(&slot->kind, kind, memory_order_release);
        }
    }
    errno = saved;
}

/* The copy is the same open file: it shares the handle. */
static int track_copy(int from, int to) {
    if (to < 0 || from == to)
        return to;
    lock();
    if (kind_of(from) == SLOT_FREE) {
        forget(to);
    } else {
        if (!in_range(to))
            die("descriptor out of range", slots[from].path);
        uint8_t kind = kind_of(from);
        slots[to].append = slots[from].append;
        slots[to].handle = slots[from].handle;
        slots[to].device = slots[from].device;
        slots[to].inode = slots[from].inode;
        strcpy(slots[to].path, slots[from].path);
        atomic_store_explicit(&slots[to].kind, kind, memory_order_release);
    }
    unlock();
    return to;
}

/* ---- faults ---- */

static const struct { const char *name; int value; } error_names[] = {
    { "EIO", EIO }, { "ENOSPC", ENOSPC }, { "EDQUOT", EDQUOT }, { "EROFS", EROFS }, { "EACCES", EACCES },
    { "EMFILE", EMFILE }, { "EINTR", EINTR }, { "EAGAIN", EAGAIN }, { "EFBIG", EFBIG }, { "ENOENT", ENOENT },
};

static void parse_error(struct rule *rule, const char *text) {
    if (strcmp(text, "HANG") == 0) {
        rule->action = ACT_HANG;
        return;
    }
    if (strcmp(text, "IGNORE") == 0) {
        rule->action = ACT_IGNORE;
        return;
    }
    rule->action = ACT_FAIL;
    for (size_t i = 0; i < sizeof error_names / sizeof *error_names; i++)
        if (strcmp(text, error_names[i].name) == 0)
            rule->error = error_names[i].value;
    if (rule->error == 0)
        rule->error = atoi(text);
    if (rule->error <= 0)
        die("unknown error in a fault", text);
}

/*
 * "op=pwrite;path=db;after=17;error=EIO;times=1": of the calls of that kind on that path, let 17 pass, fail one.
 *   op     a name of call_names; writev counts as write, pwritev as pwrite, truncate as ftruncate
 *   path   a shell pattern for the path below the directory or for its last component; any when left out
 *   after  how many pass first (0); times: how many are hit then (1), 0 for ever
 *   error  a name, a number, HANG (sleeps until the rules change, then goes on) or IGNORE (syncs only: claims success)
 *   short  1: writes the first half of the bytes, then fails; without an error it returns the short count
 */
static void parse_rule(char *text) {
    while (*text == ' ')
        text++;
    if (*text == '\0' || strcmp(text, "go") == 0)
        return;
    if (rules_count == RULES_MAX)
        die("too many faults", text);
    struct rule rule = { .path = "*", .times = 1 };
    char *rest = text, *field;
    while ((field = strsep(&rest, ";"))) {
        char *value = strchr(field, '=');
        if (!value)
            die("a fault needs name=value", field);
        *value++ = '\0';
        if (strcmp(field, "op") == 0) {
            for (int i = 1; i < CALL_END; i++)
                if (strcmp(value, call_names[i]) == 0)
                    rule.call = (enum call)i;
        } else if (strcmp(field, "path") == 0 && strlen(value) < PATH_SIZE) {
            strcpy(rule.path, value);
        } else if (strcmp(field, "after") == 0) {
            rule.after = strtoull(value, NULL, 10);
        } else if (strcmp(field, "times") == 0) {
            rule.times = strtoull(value, NULL, 10);
        } else if (strcmp(field, "error") == 0) {
            parse_error(&rule, value);
        } else if (strcmp(field, "short") == 0) {
            rule.is_short = atoi(value) != 0;
        } else {
            die("unknown field in a fault", field);
        }
    }
    bool is_sync = rule.call == CALL_FSYNC || rule.call == CALL_FDATASYNC || rule.call == CALL_SYNC_FILE_RANGE;
    if (rule.call == 0 || (rule.action == ACT_NONE && !rule.is_short) || (rule.action == ACT_IGNORE && !is_sync))
        die("a fault names no call, or an error that the call cannot have", text);
    rules[rules_count++] = rule;
}

static void parse_rules(char *text) {
    char *rest = text, *line;
    rules_count = 0;
    while ((line = strsep(&rest, "|\n")))
        parse_rule(line);
    rules_generation++;
}

/* Reads the control file if it changed. The caller holds the mutex. */
static void reload_control(void) {
    struct stat now;
    if (!control_path[0])
        return;
    if (stat(control_path, &now) != 0)
        memset(&now, 0, sizeof now);
    if (now.st_ino == control_seen.st_ino && now.st_size == control_seen.st_size &&
        now.st_mtim.tv_sec == control_seen.st_mtim.tv_sec && now.st_mtim.tv_nsec == control_seen.st_mtim.tv_nsec)
        return;
    char text[RULES_TEXT_SIZE] = "";
    int fd = (int)syscall(SYS_openat, AT_FDCWD, control_path, O_RDONLY | O_CLOEXEC, 0);
    if (fd >= 0) {
        long size = syscall(SYS_read, fd, text, sizeof text - 1);
        if (size < 0 || size == sizeof text - 1)
            die("cannot read the control file, or it is too long", control_path);
        syscall(SYS_close, fd);
    }
    control_seen = now;
    parse_rules(text);
}

static bool is_match(const struct rule *rule, enum call call, const char *path) {
    const char *slash = strrchr(path, '/');
    return rule->call == call &&
           (fnmatch(rule->path, path, 0) == 0 || fnmatch(rule->path, slash ? slash + 1 : path, 0) == 0);
}

/* Sleeps while the rules stay as they are. */
static void hang(uint64_t generation) {
    bool is_same = true;
    while (is_same) {
        nanosleep(&(struct timespec){ .tv_nsec = HANG_STEP_NS }, NULL);
        lock();
        reload_control();
        is_same = rules_generation == generation;
        unlock();
    }
}

/* What shall become of this call? `target` is the second name of a rename, or "". */
static struct verdict judge(enum call call, const char *path, const char *target) {
    struct verdict verdict = { ACT_NONE, 0, false };
    if (!atomic_load_explicit(&is_armed, memory_order_relaxed))
        return verdict;
    int saved = errno;
    lock();
    reload_control();
    uint64_t generation = rules_generation;
    for (unsigned i = 0; i < rules_count; i++) {
        struct rule *rule = &rules[i];
        if (!is_match(rule, call, path) && !(target[0] && is_match(rule, call, target)))
            continue;
        uint64_t seen = rule->seen++;
        bool is_due = seen >= rule->after && (rule->times == 0 || seen - rule->after < rule->times);
        if (is_due && verdict.action == ACT_NONE && !verdict.is_short)
            verdict = (struct verdict){ rule->action, rule->error, rule->is_short };
    }
    /* An ignored call leaves no record: that is what the rule is for. */
    if (verdict.is_short || verdict.action == ACT_FAIL || verdict.action == ACT_HANG)
        record((struct record){ .kind = RECORD_FAULT, .call = call, .result = -verdict.error,
                                .flags = verdict.action == ACT_HANG }, path, target, NULL, 0);
    unlock();
    if (verdict.action == ACT_HANG) {
        hang(generation);
        verdict = (struct verdict){ ACT_NONE, 0, false };
    }
    errno = saved;
    return verdict;
}

static bool is_refused(struct verdict verdict) {
    if (verdict.action != ACT_FAIL)
        return false;
    errno = verdict.error;
    return true;
}

/* ---- start ---- */

static void copy_variable(const char *name, char *out, size_t size) {
    const char *value = getenv(name);
    if (value && strlen(value) >= size)
        die("variable too long", name);
    strcpy(out, value ? value : "");
}

__attribute__((constructor)) static void start(void) {
    char given[PATH_MAX], text[RULES_TEXT_SIZE];
    copy_variable("SEMEL_SHIM_DIR", given, sizeof given);
    if (!given[0])
        return;
    if (!realpath(given, root))
        die("SEMEL_SHIM_DIR", strerror(errno));
    root_size = strlen(root);
    copy_variable("SEMEL_SHIM_MARKS", given, sizeof given);
    if (given[0] && !resolve(AT_FDCWD, given, marks_path))
        die("SEMEL_SHIM_MARKS", given);
    copy_variable("SEMEL_SHIM_CONTROL", control_path, sizeof control_path);
    copy_variable("SEMEL_SHIM_FAULT", text, sizeof text);
    parse_rules(text);
    copy_variable("SEMEL_SHIM_IGNORE_SYNC", text, sizeof text);
    is_fdatasync_ignored = strcmp(text, "1") == 0;
    is_armed = rules_count > 0 || control_path[0];
    copy_variable("SEMEL_SHIM_RECORD", given, sizeof given);
    if (given[0]) {
        int low = (int)syscall(SYS_openat, AT_FDCWD, given, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        /* Out of the way of programs that count on low numbers. */
        record_fd = (int)syscall(SYS_fcntl, low, F_DUPFD_CLOEXEC, 200);
        syscall(SYS_close, low);
        if (record_fd < 0)
            die("SEMEL_SHIM_RECORD", given);
    }
    pthread_atfork(lock, unlock, unlock_in_child);
    is_active = true;
    record((struct record){ .kind = RECORD_START, .offset = FORMAT_VERSION, .flags = (uint64_t)getpid() }, root, "",
           NULL, 0);
    char path[PATH_MAX];
    for (int fd = 1; fd <= 2; fd++)
        if (marks_path[0] && path_of_fd(fd, path) && strcmp(path, marks_path) == 0)
            track(fd, O_APPEND, 0);
}

/* ---- open and close ---- */

static int open_at(int dirfd, const char *path, int flags, mode_t mode) {
    char buffer[PATH_MAX];
    if (!is_active || (flags & O_TMPFILE) == O_TMPFILE || (flags & O_PATH)) {
        int plain = (int)syscall(SYS_openat, dirfd, path, flags, mode);
        forget(plain);
        return plain;
    }
    if (atomic_load_explicit(&is_armed, memory_order_relaxed)) {
        const char *name = inside(dirfd, path, buffer);
        if (name && is_refused(judge(CALL_OPEN, name, "")))
            return -1;
    }
    int saved = errno;
    struct stat before;
    lock();
    bool existed = fstatat(dirfd, path, &before, 0) == 0;
    errno = saved;
    if (existed && !S_ISREG(before.st_mode) && !S_ISDIR(before.st_mode)) {
        unlock(); /* a pipe may block */
        int plain = (int)syscall(SYS_openat, dirfd, path, flags, mode);
        forget(plain);
        return plain;
    }
    int fd = (int)syscall(SYS_openat, dirfd, path, flags, mode);
    if (fd >= 0)
        track(fd, flags, !existed ? OPEN_CREATED : flags & O_TRUNC ? OPEN_TRUNCATED : 0);
    unlock();
    return fd;
}

#define MODE_OF(flags, mode) \
    mode_t mode = 0; \
    if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *path, int flags, ...) {
    MODE_OF(flags, mode)
    return open_at(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    MODE_OF(flags, mode)
    return open_at(AT_FDCWD, path, flags, mode);
}

int openat(int dirfd, const char *path, int flags, ...) {
    MODE_OF(flags, mode)
    return open_at(dirfd, path, flags, mode);
}

int openat64(int dirfd, const char *path, int flags, ...) {
    MODE_OF(flags, mode)
    return open_at(dirfd, path, flags, mode);
}

int creat(const char *path, mode_t mode) { return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

int close(int fd) {
    if (kind_of(fd) != SLOT_FREE) {
        lock();
        if (is_still(fd) && kind_of(fd) != SLOT_MARKS)
            record((struct record){ .kind = RECORD_CLOSE, .handle = slots[fd].handle }, slots[fd].path, "", NULL, 0);
        forget(fd); /* before the number is free for another thread */
        unlock();
    }
    return (int)syscall(SYS_close, fd);
}

int dup(int fd) { return track_copy(fd, (int)syscall(SYS_dup, fd)); }

int dup3(int from, int to, int flags) { return track_copy(from, (int)syscall(SYS_dup3, from, to, flags)); }

int dup2(int from, int to) {
    if (from == to)
        return syscall(SYS_fcntl, from, F_GETFD) < 0 ? -1 : to;
    return dup3(from, to, 0);
}

static int control_fd(int fd, int command, void *argument) {
    int rc = (int)syscall(SYS_fcntl, fd, command, argument);
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
        return track_copy(fd, rc);
    if (command == F_SETFL && rc == 0 && kind_of(fd) != SLOT_FREE)
        slots[fd].append = (intptr_t)argument & O_APPEND;
    return rc;
}

#define FCNTL(name) \
    int name(int fd, int command, ...) { \
        va_list rest; \
        va_start(rest, command); \
        void *argument = va_arg(rest, void *); \
        va_end(rest); \
        return control_fd(fd, command, argument); \
    }
FCNTL(fcntl)
FCNTL(fcntl64)

/* ---- reads: faults only ---- */

#define READ(name, kind, number, parameters, ...) \
    ssize_t name parameters { \
        if (kind_of(fd) == SLOT_FILE) { \
            struct verdict verdict = judge(kind, slots[fd].path, ""); \
            if (is_refused(verdict)) \
                return -1; \
            if (verdict.is_short) \
                size = (size + 1) / 2; \
        } \
        return syscall(number, fd, data, size, ##__VA_ARGS__); \
    }
READ(read, CALL_READ, SYS_read, (int fd, void *data, size_t size))
READ(pread, CALL_PREAD, SYS_pread64, (int fd, void *data, size_t size, off_t offset), offset)
READ(pread64, CALL_PREAD, SYS_pread64, (int fd, void *data, size_t size, off64_t offset), offset)

/* ---- writes ---- */

/* Where the last `written` bytes of this descriptor went. */
static uint64_t written_at(int fd, ssize_t written, off64_t offset) {
    struct stat now;
    if (slots[fd].append)
        return fstat(fd, &now) == 0 ? (uint64_t)(now.st_size - written) : 0;
    return offset >= 0 ? (uint64_t)offset : (uint64_t)(lseek(fd, 0, SEEK_CUR) - written);
}

/* `offset` -1: at the position of the descriptor. */
static ssize_t store(int fd, enum call call, const struct iovec *given, int count, off64_t offset) {
    struct iovec parts[PARTS_MAX];
    uint64_t size = 0, left;
    count = count < PARTS_MAX ? count : PARTS_MAX;
    for (int i = 0; i < count; i++)
        size += given[i].iov_len;
    bool is_marks = kind_of(fd) == SLOT_MARKS;
    struct verdict verdict = is_marks ? (struct verdict){ ACT_NONE, 0, false } : judge(call, slots[fd].path, "");
    if (!verdict.is_short && is_refused(verdict))
        return -1;
    left = verdict.is_short ? size / 2 : size;
    for (int i = 0; i < count; i++) {
        parts[i] = given[i];
        parts[i].iov_len = parts[i].iov_len < left ? parts[i].iov_len : left;
        left -= parts[i].iov_len;
    }
    lock();
    bool is_known = is_still(fd);
    ssize_t written = offset < 0 ? syscall(SYS_writev, fd, parts, count)
                                 : syscall(SYS_pwritev, fd, parts, count, (long)offset, 0L);
    int saved = errno;
    if (is_known && is_marks && written > 0)
        record((struct record){ .kind = RECORD_MARK, .data_size = (uint64_t)written }, "", "", parts, count);
    else if (is_known && written != 0)
        record((struct record){ .kind = RECORD_WRITE, .call = call, .handle = slots[fd].handle,
                                .offset = written > 0 ? written_at(fd, written, offset) : 0,
                                .size = size, .result = result_of(written),
                                .data_size = written > 0 ? (uint64_t)written : 0 }, slots[fd].path, "", parts, count);
    unlock();
    errno = saved;
    return is_refused(verdict) ? -1 : written;
}

ssize_t write(int fd, const void *data, size_t size) {
    if (kind_of(fd) == SLOT_FREE)
        return syscall(SYS_write, fd, data, size);
    return store(fd, CALL_WRITE, &(struct iovec){ (void *)data, size }, 1, -1);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    if (kind_of(fd) == SLOT_FREE)
        return syscall(SYS_writev, fd, parts, count);
    return store(fd, CALL_WRITE, parts, count, -1);
}

static ssize_t write_at(int fd, const void *data, size_t size, off64_t offset) {
    if (kind_of(fd) == SLOT_FREE || offset < 0)
        return syscall(SYS_pwrite64, fd, data, size, offset);
    return store(fd, CALL_PWRITE, &(struct iovec){ (void *)data, size }, 1, offset);
}

static ssize_t writev_at(int fd, const struct iovec *parts, int count, off64_t offset) {
    if (kind_of(fd) == SLOT_FREE || offset < 0)
        return syscall(SYS_pwritev, fd, parts, count, (long)offset, 0L);
    return store(fd, CALL_PWRITE, parts, count, offset);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return write_at(fd, data, size, at); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) { return write_at(fd, data, size, at); }
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) { return writev_at(fd, parts, count, at); }
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) { return writev_at(fd, parts, count, at); }

/* Refused as an old kernel would, so that the caller falls back to read and write. */
ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t size, unsigned flags) {
    if (kind_of(to) == SLOT_FREE)
        return syscall(SYS_copy_file_range, from, from_at, to, to_at, size, flags);
    errno = ENOSYS;
    return -1;
}

static ssize_t send_file(int to, int from, off64_t *at, size_t size) {
    if (kind_of(to) == SLOT_FREE)
        return syscall(SYS_sendfile, to, from, at, size);
    errno = EINVAL;
    return -1;
}

ssize_t sendfile(int to, int from, off_t *at, size_t size) { return send_file(to, from, at, size); }
ssize_t sendfile64(int to, int from, off64_t *at, size_t size) { return send_file(to, from, at, size); }

/* ---- sizes ---- */

static int resize(int fd, off64_t size) {
    if (kind_of(fd) != SLOT_FILE)
        return (int)syscall(SYS_ftruncate, fd, size);
    if (is_refused(judge(CALL_FTRUNCATE, slots[fd].path, "")))
        return -1;
    lock();
    int rc = (int)syscall(SYS_ftruncate, fd, size);
    if (is_still(fd))
        record((struct record){ .kind = RECORD_TRUNCATE, .call = CALL_FTRUNCATE, .handle = slots[fd].handle,
                                .size = (uint64_t)size, .result = result_of(rc) }, slots[fd].path, "", NULL, 0);
    unlock();
    return rc;
}

int ftruncate(int fd, off_t size) { return resize(fd, size); }
int ftruncate64(int fd, off64_t size) { return resize(fd, size); }

static int resize_path(const char *path, off64_t size) {
    int fd = open_at(AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    int rc = resize(fd, size), saved = errno;
    close(fd);
    errno = saved;
    return rc;
}

int truncate(const char *path, off_t size) { return resize_path(path, size); }
int truncate64(const char *path, off64_t size) { return resize_path(path, size); }

static int allocate(int fd, int mode, off64_t offset, off64_t size) {
    if (kind_of(fd) != SLOT_FILE)
        return (int)syscall(SYS_fallocate, fd, mode, offset, size);
    if (is_refused(judge(CALL_FALLOCATE, slots[fd].path, "")))
        return -1;
    lock();
    int rc = (int)syscall(SYS_fallocate, fd, mode, offset, size);
    if (is_still(fd))
        record((struct record){ .kind = RECORD_ALLOCATE, .call = CALL_FALLOCATE, .handle = slots[fd].handle,
                                .offset = (uint64_t)offset, .size = (uint64_t)size, .result = result_of(rc),
                                .flags = (uint64_t)mode }, slots[fd].path, "", NULL, 0);
    unlock();
    return rc;
}

int fallocate(int fd, int mode, off_t offset, off_t size) { return allocate(fd, mode, offset, size); }
int fallocate64(int fd, int mode, off64_t offset, off64_t size) { return allocate(fd, mode, offset, size); }
int posix_fallocate(int fd, off_t offset, off_t size) { return allocate(fd, 0, offset, size) < 0 ? errno : 0; }
int posix_fallocate64(int fd, off64_t offset, off64_t size) { return allocate(fd, 0, offset, size) < 0 ? errno : 0; }

/* ---- syncs ---- */

static int sync_fd(int fd, enum call call, long number) {
    uint8_t kind = kind_of(fd);
    if (kind != SLOT_FILE && kind != SLOT_DIRECTORY)
        return (int)syscall(number, fd);
    if (call == CALL_FDATASYNC && is_fdatasync_ignored)
        return 0;
    struct verdict verdict = judge(call, slots[fd].path, "");
    if (verdict.action == ACT_IGNORE)
        return 0;
    lock();
    bool is_known = is_still(fd);
    struct record head = { .kind = RECORD_SYNC_BEGIN, .call = call, .handle = slots[fd].handle, .offset = next_id() };
    char path[PATH_SIZE];
    strcpy(path, slots[fd].path);
    if (is_known)
        record(head, path, "", NULL, 0);
    unlock();
    int rc = is_refused(verdict) ? -1 : (int)syscall(number, fd);
    lock();
    head.kind = RECORD_SYNC_END;
    head.result = result_of(rc);
    if (is_known)
        record(head, path, "", NULL, 0);
    unlock();
    return rc;
}

int fsync(int fd) { return sync_fd(fd, CALL_FSYNC, SYS_fsync); }
int fdatasync(int fd) { return sync_fd(fd, CALL_FDATASYNC, SYS_fdatasync); }

/* It promises nothing after a power cut, so it only leaves a trace. */
int sync_file_range(int fd, off64_t offset, off64_t size, unsigned flags) {
    struct verdict verdict = { ACT_NONE, 0, false };
    bool is_file = kind_of(fd) == SLOT_FILE;
    if (is_file)
        verdict = judge(CALL_SYNC_FILE_RANGE, slots[fd].path, "");
    if (verdict.action == ACT_IGNORE)
        return 0;
    int rc = is_refused(verdict) ? -1 : (int)syscall(SYS_sync_file_range, fd, offset, size, flags);
    if (is_file) {
        lock();
        if (is_still(fd))
            record((struct record){ .kind = RECORD_SYNC_RANGE, .call = CALL_SYNC_FILE_RANGE,
                                    .handle = slots[fd].handle, .offset = (uint64_t)offset, .size = (uint64_t)size,
                                    .result = result_of(rc) }, slots[fd].path, "", NULL, 0);
        unlock();
    }
    return rc;
}

/* ---- names ---- */

/* A name as the caller gives it; `path` is NULL where there is no second one. */
struct name {
    int dirfd;
    const char *path;
};

/* Runs a call on one or two names and records it. The names are resolved under the mutex: a parent may be moving. */
static int change_name(enum record_kind kind, enum call call, struct name from, struct name to, uint64_t flags,
                       long number, const long arguments[5]) {
    char a[PATH_MAX], b[PATH_MAX];
    const char *path, *target;
    if (atomic_load_explicit(&is_armed, memory_order_relaxed)) {
        path = inside(from.dirfd, from.path, a);
        target = to.path ? inside(to.dirfd, to.path, b) : NULL;
        if ((path || target) && is_refused(judge(call, path ? path : "", target ? target : "")))
            return -1;
    }
    lock();
    path = inside(from.dirfd, from.path, a);
    target = to.path ? inside(to.dirfd, to.path, b) : NULL;
    int rc = (int)syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4]);
    if (rc == 0 && to.path && !path != !target)
        die("a name crosses the border of the directory", to.path);
    if (path)
        record((struct record){ .kind = (uint16_t)kind, .call = call, .result = result_of(rc), .flags = flags }, path,
               target ? target : "", NULL, 0);
    unlock();
    return rc;
}

static const struct name no_name = { -1, NULL };

int renameat2(int fromfd, const char *from, int tofd, const char *to, unsigned flags) {
    return change_name(RECORD_RENAME, CALL_RENAME, (struct name){ fromfd, from }, (struct name){ tofd, to }, flags,
                       SYS_renameat2, (long[]){ fromfd, (long)from, tofd, (long)to, flags });
}

int renameat(int fromfd, const char *from, int tofd, const char *to) { return renameat2(fromfd, from, tofd, to, 0); }
int rename(const char *from, const char *to) { return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0); }

int linkat(int fromfd, const char *from, int tofd, const char *to, int flags) {
    return change_name(RECORD_LINK, CALL_LINK, (struct name){ fromfd, from }, (struct name){ tofd, to },
                       (uint64_t)flags, SYS_linkat, (long[]){ fromfd, (long)from, tofd, (long)to, flags });
}

int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

int unlinkat(int dirfd, const char *path, int flags) {
    bool is_directory = flags & AT_REMOVEDIR;
    return change_name(is_directory ? RECORD_RMDIR : RECORD_UNLINK, is_directory ? CALL_RMDIR : CALL_UNLINK,
                       (struct name){ dirfd, path }, no_name, 0, SYS_unlinkat,
                       (long[]){ dirfd, (long)path, flags, 0, 0 });
}

int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdirat(int dirfd, const char *path, mode_t mode) {
    return change_name(RECORD_MKDIR, CALL_MKDIR, (struct name){ dirfd, path }, no_name, 0, SYS_mkdirat,
                       (long[]){ dirfd, (long)path, (long)mode, 0, 0 });
}

int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
