/* Load on ZooKeeper: zookeeper_load SESSIONS ADDRESS,ADDRESS,...
 *
 * Does and says what store_load.go does, but for "leader": orders on stdin, a JSON line on stdout for each. A write
 * creates a node of its own under one parent. With a BATCH above 1, so many are created in one multi.
 */
#define _GNU_SOURCE
#define THREADED
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

enum { MOST_SESSIONS = 64, MOST_BYTES = 1 << 20, MOST_COUNT = 10 * 1000 * 1000, MOST_BATCH = 1000, PATH_BYTES = 64, BURSTS = 4 };
static const int SESSION_MS = 30000;
static const int CONNECT_S = 30;
static const int REQUEST_S = 20;

static zhandle_t *sessions[MOST_SESSIONS];
static int session_count;
static char *value;
static int64_t run;
static uint64_t number;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static int waiting; /* requests without an answer */
static int enough;  /* with fewer waiting than this, the sender is woken */
static int64_t done, failed;
static int last_error;

/* One request; its paths and results live until its answer. */
struct request {
	int batch;
	zoo_op_t *ops;
	zoo_op_result_t *results;
	char (*paths)[PATH_BYTES];
};

static double now_s(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static void die(const char *what, const char *why)
{
	fprintf(stderr, "load: %s: %s\n", what, why);
	exit(1);
}

static void answered(int rc, int batch)
{
	pthread_mutex_lock(&lock);
	waiting--;
	if (rc == ZOK) {
		done += batch;
	} else {
		failed++;
		last_error = rc;
	}
	if (waiting < enough)
		pthread_cond_signal(&changed);
	pthread_mutex_unlock(&lock);
}

static void created(int rc, const char *path, const void *data)
{
	(void)path;
	(void)data;
	answered(rc, 1);
}

static void created_many(int rc, const void *data)
{
	struct request *request = (struct request *)data;
	answered(rc, request->batch);
	free(request->ops);
	free(request->results);
	free(request->paths);
	free(request);
}

static void name(char *path)
{
	snprintf(path, PATH_BYTES, "/b/%" PRIx64 "-%" PRIx64, run, ++number);
}

static int create_many(zhandle_t *session, int size, int batch)
{
	struct request *request = calloc(1, sizeof *request);
	if (!request || !(request->ops = calloc(batch, sizeof *request->ops)) ||
	    !(request->results = calloc(batch, sizeof *request->results)) ||
	    !(request->paths = calloc(batch, sizeof *request->paths)))
		die("memory", "none left");
	request->batch = batch;
	for (int place = 0; place < batch; place++) {
		name(request->paths[place]);
		zoo_create_op_init(&request->ops[place], request->paths[place], value, size, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
	}
	return zoo_amulti(session, batch, request->ops, request->results, created_many, request);
}

/* Sends one request; its answer comes on the client's own thread. */
static void send_one(int size, int batch)
{
	zhandle_t *session = sessions[number % session_count];
	pthread_mutex_lock(&lock);
	waiting++;
	pthread_mutex_unlock(&lock);
	int rc;
	if (batch == 1) {
		char path[PATH_BYTES];
		name(path);
		rc = zoo_acreate(session, path, value, size, &ZOO_OPEN_ACL_UNSAFE, 0, created, NULL);
	} else {
		rc = create_many(session, size, batch);
	}
	if (rc != ZOK) {
		answered(rc, batch);
		usleep(10000);
	}
}

/* Until fewer than so many wait, or the time has come; whether it is the former. */
static int fewer_than(int most, double until_s)
{
	struct timespec until = {(time_t)until_s, (long)((until_s - (time_t)until_s) * 1e9)};
	pthread_mutex_lock(&lock);
	int late = 0;
	enough = most;
	while (waiting >= most && !late)
		late = pthread_cond_timedwait(&changed, &lock, &until);
	int fewer = waiting < most;
	pthread_mutex_unlock(&lock);
	return fewer;
}

static int64_t look(const int64_t *count)
{
	pthread_mutex_lock(&lock);
	int64_t seen = *count;
	pthread_mutex_unlock(&lock);
	return seen;
}

static void throughput(int size, int outstanding, int batch, double warm_s, double run_s)
{
	int64_t failed_before = look(&failed), before = 0;
	double began = now_s(), measured = 0;
	while (!measured || now_s() < measured + run_s) {
		if (!measured && now_s() >= began + warm_s) {
			before = look(&done);
			measured = now_s();
		}
		/* In bursts: a sender that is woken by each answer costs more than the request. */
		if (fewer_than(outstanding - outstanding / BURSTS, now_s() + 0.01))
			for (int free = outstanding / BURSTS; free >= 0; free--)
				send_one(size, batch);
	}
	int64_t writes = look(&done) - before;
	double seconds = now_s() - measured;
	fewer_than(1, now_s() + REQUEST_S);
	int64_t refused = look(&failed) - failed_before;
	printf("{\"writes\": %" PRId64 ", \"seconds\": %.6f, \"failed\": %" PRId64 ", \"error\": \"%s\"}\n", writes, seconds,
	       refused, refused ? zerror(last_error) : "");
}

static void latency(int size, int count)
{
	int64_t failed_before = look(&failed);
	printf("{\"took\": [");
	for (int place = 0; place < count; place++) {
		double began = now_s();
		send_one(size, 1);
		if (!fewer_than(1, began + REQUEST_S))
			die("latency", "no answer");
		printf("%s%.0f", place ? "," : "", (now_s() - began) * 1e9);
	}
	printf("]}\n");
	if (look(&failed) > failed_before)
		die("latency", zerror(last_error));
}

static void attempt(int size, int count, double limit_s)
{
	int64_t before = look(&done), failed_before = look(&failed), refused = 0;
	double until = now_s() + limit_s, after = 0;
	const char *said = "";
	while (now_s() < until && look(&done) - before < count) {
		double began = now_s();
		send_one(size, 1);
		if (!fewer_than(1, until))
			break;
		refused = look(&failed) - failed_before;
		if (refused == 1 && !*said) {
			after = now_s() - began;
			said = zerror(last_error);
		}
	}
	printf("{\"accepted\": %" PRId64 ", \"refused\": %" PRId64 ", \"error\": \"%s\", \"after\": %.6f}\n",
	       look(&done) - before, refused, said, after);
}

static void connect_all(const char *addresses)
{
	for (int place = 0; place < session_count; place++) {
		sessions[place] = zookeeper_init(addresses, NULL, SESSION_MS, 0, NULL, 0);
		if (!sessions[place])
			die("connect", "refused");
		/* Else it asks the resolver for each address whenever it looks at its socket, which costs more than all else. */
		zoo_set_servers_resolution_delay(sessions[place], -1);
	}
	double until = now_s() + CONNECT_S;
	for (int place = 0; place < session_count; place++)
		while (zoo_state(sessions[place]) != ZOO_CONNECTED_STATE) {
			if (now_s() > until)
				die("connect", "no server took it");
			usleep(10000);
		}
	int rc = zoo_create(sessions[0], "/b", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
	if (rc != ZOK && rc != ZNODEEXISTS)
		die("create", zerror(rc));
}

int main(int argc, char **argv)
{
	if (argc != 3 || (session_count = atoi(argv[1])) < 1 || session_count > MOST_SESSIONS)
		die("usage", "zookeeper_load SESSIONS ADDRESS,ADDRESS,...");
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
	pthread_condattr_t attributes;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&changed, &attributes);
	run = (int64_t)time(NULL) << 20 | getpid();
	value = malloc(MOST_BYTES);
	if (!value)
		die("memory", "none left");
	for (int place = 0; place < MOST_BYTES; place++)
		value[place] = (char)rand();
	connect_all(argv[2]);
	printf("{\"ready\": true}\n");
	fflush(stdout);
	char line[256];
	while (fgets(line, sizeof line, stdin)) {
		int size, outstanding, batch, warm_ms, run_ms, count, seconds;
		if (sscanf(line, "throughput %d %d %d %d %d", &size, &outstanding, &batch, &warm_ms, &run_ms) == 5 && size >= 0 &&
		    size <= MOST_BYTES && outstanding > 0 && batch > 0 && batch <= MOST_BATCH)
			throughput(size, outstanding, batch, warm_ms / 1e3, run_ms / 1e3);
		else if (sscanf(line, "latency %d %d", &size, &count) == 2 && size >= 0 && size <= MOST_BYTES && count > 0 &&
			 count <= MOST_COUNT)
			latency(size, count);
		else if (sscanf(line, "attempt %d %d %d", &size, &count, &seconds) == 3 && size >= 0 && size <= MOST_BYTES)
			attempt(size, count, seconds);
		else
			die("order", "not understood");
		fflush(stdout);
	}
	_exit(0); /* sessions that have lost their servers would be waited for */
}
