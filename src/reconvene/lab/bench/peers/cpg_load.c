/* Load and observation of a Corosync process group: one process of this at each site.
 *
 *   cpg_load throughput MEMBERS BYTES        sends agreed messages as fast as they are taken, counts deliveries
 *   cpg_load latency MEMBERS BYTES COUNT PAUSE_US send|listen
 *                                            one message at a time from the one that sends; how long each took to here
 *   cpg_load watch MEMBERS BYTES PER_SECOND  sends at a pace, tells every configuration
 *
 * Each joins the group, and tells {"members": n, "at": ns} at every configuration of it, a JSON line on stdout.
 * When all MEMBERS are there, a line on stdin starts it:
 *
 *   throughput  "FROM TO": sends from now until TO; tells {"from": n, "to": n}, its deliveries up to each moment
 *   latency     any line; tells {"took": [ns, ...]}, by message, once it has all
 *   watch       any line; tells only configurations
 *
 * It ends when stdin does, so it never outlives who started it. All times are CLOCK_MONOTONIC in nanoseconds, which
 * every process of one machine shares. Errors: one line on stderr, exit 1.
 */
#define _GNU_SOURCE
#include <corosync/corotypes.h>
#include <corosync/cpg.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Carried at the front of every message. */
struct stamp {
	uint64_t number;
	int64_t sent_ns;
};

enum mode { THROUGHPUT, LATENCY, WATCH };

/* Before it looks for deliveries again: of 1 to 1024 this gave Corosync the most; without a bound it never looks. */
static const int BURST = 1024;
static const size_t MOST_BYTES = 1 << 20;
static const long MOST_COUNT = 10 * 1000 * 1000;

static enum mode mode;
static cpg_handle_t handle;
static size_t present;
static uint64_t delivered;
static int64_t from_ns = INT64_MAX, to_ns = INT64_MAX;
static uint64_t by_from, by_to;
static int told;
static int64_t *took;
static uint64_t expected;

static int64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void die(const char *what, int code)
{
	fprintf(stderr, "cpg_load: %s: error %d\n", what, code);
	exit(1);
}

/* Deliveries so far, where one of the two moments has passed: called as each is counted, and between. */
static void look_at_the_clock(void)
{
	if (told || from_ns == INT64_MAX)
		return;
	int64_t now = now_ns();
	if (now < from_ns)
		by_from = delivered;
	if (now < to_ns) {
		by_to = delivered;
		return;
	}
	told = 1;
	printf("{\"from\": %" PRIu64 ", \"to\": %" PRIu64 "}\n", by_from, by_to);
}

static void tell_took(void)
{
	printf("{\"took\": [");
	for (uint64_t number = 0; number < expected; number++)
		printf("%s%" PRId64, number ? "," : "", took[number]);
	printf("]}\n");
}

static void deliver(cpg_handle_t of, const struct cpg_name *group, uint32_t node, uint32_t pid, void *message,
		    size_t length)
{
	(void)of, (void)group, (void)node, (void)pid;
	struct stamp stamp;
	if (length < sizeof stamp)
		return;
	delivered++;
	if (mode == THROUGHPUT)
		look_at_the_clock();
	if (mode != LATENCY)
		return;
	memcpy(&stamp, message, sizeof stamp);
	if (stamp.number >= expected)
		return;
	took[stamp.number] = now_ns() - stamp.sent_ns;
	/* One sender and one order: the last number comes last. */
	if (stamp.number == expected - 1)
		tell_took();
}

static void configure(cpg_handle_t of, const struct cpg_name *group, const struct cpg_address *members, size_t count,
		      const struct cpg_address *left, size_t left_count, const struct cpg_address *joined,
		      size_t joined_count)
{
	(void)of, (void)group, (void)members, (void)left, (void)left_count, (void)joined, (void)joined_count;
	present = count;
	printf("{\"members\": %zu, \"at\": %" PRId64 "}\n", count, now_ns());
}

/* Hands over what has come, and waits so long for something where nothing has; false: stdin is at its end. */
static int turn(int cpg_fd, int timeout_us, char *line, size_t size)
{
	struct pollfd fds[] = {{.fd = cpg_fd, .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};
	struct timespec wait = {.tv_sec = timeout_us / 1000000, .tv_nsec = timeout_us % 1000000 * 1000L};
	line[0] = 0;
	if (ppoll(fds, 2, &wait, NULL) < 0)
		die("ppoll", 0);
	if (fds[0].revents) {
		cs_error_t error = cpg_dispatch(handle, CS_DISPATCH_ALL);
		if (error != CS_OK && error != CS_ERR_TRY_AGAIN)
			die("cpg_dispatch", error);
	}
	if (fds[1].revents) {
		ssize_t got = read(STDIN_FILENO, line, size - 1);
		if (got <= 0)
			return 0;
		line[got] = 0;
	}
	return 1;
}

/* True where it was taken. */
static int send_one(char *message, size_t bytes, uint64_t number)
{
	struct stamp stamp = {.number = number, .sent_ns = now_ns()};
	struct iovec part = {.iov_base = message, .iov_len = bytes};
	memcpy(message, &stamp, sizeof stamp);
	cs_error_t error = cpg_mcast_joined(handle, CPG_TYPE_AGREED, &part, 1);
	if (error != CS_OK && error != CS_ERR_TRY_AGAIN)
		die("cpg_mcast_joined", error);
	return error == CS_OK;
}

static long argument(char **argv, int place, long most)
{
	char *end;
	long value = argv[place] == NULL ? -1 : strtol(argv[place], &end, 10);
	if (value < 0 || value > most || *end)
		die("bad argument", place);
	return value;
}

static void join(void)
{
	cpg_callbacks_t callbacks = {.cpg_deliver_fn = deliver, .cpg_confchg_fn = configure};
	struct cpg_name group = {.value = "load"};
	cs_error_t error;
	group.length = strlen(group.value);
	error = cpg_initialize(&handle, &callbacks);
	if (error != CS_OK)
		die("cpg_initialize", error);
	while ((error = cpg_join(handle, &group)) == CS_ERR_TRY_AGAIN)
		usleep(1000);
	if (error != CS_OK)
		die("cpg_join", error);
}

int main(int argc, char **argv)
{
	static const char *const MODES[] = {"throughput", "latency", "watch"};
	if (argc < 4)
		die("expected a mode, MEMBERS and BYTES", argc);
	for (mode = THROUGHPUT; strcmp(argv[1], MODES[mode]);)
		if (++mode > WATCH)
			die("no such mode", mode);
	size_t members = argument(argv, 2, CPG_MEMBERS_MAX);
	size_t bytes = argument(argv, 3, MOST_BYTES);
	char *message = calloc(1, bytes < sizeof(struct stamp) ? sizeof(struct stamp) : bytes);
	int64_t gap_ns = 0;
	int sends = 1, going = 0, cpg_fd;
	char line[128];
	if (bytes < sizeof(struct stamp))
		bytes = sizeof(struct stamp);
	if (mode == LATENCY) {
		if (argc != 7)
			die("expected COUNT PAUSE_US send|listen", argc);
		expected = argument(argv, 4, MOST_COUNT);
		gap_ns = argument(argv, 5, MOST_COUNT) * 1000;
		sends = strcmp(argv[6], "send") == 0;
		took = calloc(expected, sizeof *took);
	} else if (mode == WATCH) {
		long per_second = argument(argv, 4, 1000 * 1000);
		sends = per_second > 0;
		gap_ns = sends ? INT64_C(1000000000) / per_second : 0;
	}
	if (message == NULL || (mode == LATENCY && took == NULL))
		die("no memory", 0);
	setvbuf(stdout, NULL, _IOLBF, 0);
	join();
	if (cpg_fd_get(handle, &cpg_fd) != CS_OK)
		die("cpg_fd_get", 0);

	uint64_t sent = 0;
	int64_t next_ns = 0;
	int idle_us = 100 * 1000;
	while (turn(cpg_fd, going ? idle_us : 100 * 1000, line, sizeof line)) {
		if (line[0] && present >= members && !going) {
			going = 1;
			next_ns = now_ns();
			if (mode == THROUGHPUT && sscanf(line, "%" SCNd64 " %" SCNd64, &from_ns, &to_ns) != 2)
				die("expected FROM TO", 0);
		}
		idle_us = 100 * 1000;
		if (!going || !sends)
			continue;
		if (mode == THROUGHPUT) {
			look_at_the_clock();
			int burst = BURST;
			while (!told && burst && send_one(message, bytes, sent))
				burst--, sent++;
			/* Not taken: the next try is worth it when deliveries come, or a little later. */
			idle_us = told ? 100 * 1000 : burst ? 1000 : 0;
		} else if (mode == LATENCY) {
			/* Alone on its way: not before the one before has come back. */
			if (sent == expected || delivered < sent)
				continue;
			int64_t ahead_ns = next_ns - now_ns();
			if (ahead_ns > 0)
				idle_us = (int)(ahead_ns / 1000);
			else if (send_one(message, bytes, sent))
				sent++, next_ns = now_ns() + gap_ns;
			else
				idle_us = 0;
		} else {
			int64_t now = now_ns();
			/* What could not be sent at its time, while a configuration forms, is not caught up on. */
			if (now >= next_ns) {
				sent += send_one(message, bytes, sent);
				next_ns = next_ns + gap_ns > now ? next_ns + gap_ns : now + gap_ns;
			}
			idle_us = (int)((next_ns - now) / 1000);
		}
	}
	cpg_finalize(handle);
	return 0;
}
