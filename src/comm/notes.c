/* What processes tell one another besides data: that they are waiting, and in which job, or that they have left or
 * failed.
 *
 * A process that has waited for long asks why: one that has left will not answer any more, and one that is waiting in
 * a different job has made different calls. Nothing is sent as long as all goes well.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/host/clock.h"
#include "comm/comm.h"

static const double tell_after  = 0.5; /* seconds without progress */
static const double fail_after  = 1;   /* by then, everything sent by a process that has left has arrived */
static const double look_every  = 0.05;
static const double part_within = 0.5; /* to receive the others' last notes */

static const char *const names[] = {[IPU__COMM_OPEN]       = "nothing",
                                    [IPU__COMM_ALL_REDUCE] = "a sum",
                                    [IPU__COMM_BROADCAST]  = "a broadcast",
                                    [IPU__COMM_GATHER]     = "a gather",
                                    [IPU__COMM_STOP]       = "the end"};

bool ipu__comm_notes_open(ipu__comm_end *end)
{
    end->peers = ipu__alloc_zeroed((size_t)end->size * sizeof *end->peers);
    if (!end->peers) snprintf(end->message, sizeof end->message, "out of memory");
    return end->peers != NULL;
}

static bool wait_for(ipu__comm_end *end, ipu__request *request)
{
    double begin = ipu__clock_seconds();
    bool   done  = false;
    char   ignored[IPU__COMM_MESSAGE_BYTES];
    while (end->transport->is_done(end->self, request, &done, ignored, sizeof ignored) && !done)
        if (ipu__clock_seconds() - begin > fail_after) return false;
    return done;
}

/* Failing to deliver a note is not an error in itself; it may still be in transit, so its memory is kept. */
static void post(ipu__comm_end *end, int64_t to, ipu__comm_word word)
{
    ipu__request    request;
    char            ignored[IPU__COMM_MESSAGE_BYTES];
    ipu__comm_note *note = ipu__alloc(sizeof *note);
    if (!note) return;
    *note      = end->now;
    note->word = word;
    if (word == IPU__COMM_FAILED) snprintf(note->text, sizeof note->text, "%.190s", end->message);
    bool sent = end->transport->send(end->self, to, IPU__COMM_NOTE_TAG, note, sizeof *note, &request, ignored,
                                     sizeof ignored);
    if (!sent || wait_for(end, &request)) ipu__free(note);
}

/* Receives its latest note. */
static void take(ipu__comm_end *end, int64_t from)
{
    ipu__request request;
    char         ignored[IPU__COMM_MESSAGE_BYTES];
    bool         is_there = true;
    while (end->peers[from].last.word < IPU__COMM_LEFT
           && end->transport->has_come(end->self, from, IPU__COMM_NOTE_TAG, &is_there) && is_there) {
        ipu__comm_note *note = ipu__alloc(sizeof *note);
        if (!note
            || !end->transport->receive(end->self, from, IPU__COMM_NOTE_TAG, note, sizeof *note, &request,
                                        ignored, sizeof ignored)) {
            ipu__free(note);
            return;
        }
        if (!wait_for(end, &request)) return;
        note->text[sizeof note->text - 1] = 0;
        end->peers[from].last             = *note;
        ipu__free(note);
    }
}

static void describe(const ipu__comm_note *n, char out[96])
{
    bool known = n->kind >= 0 && n->kind < (int64_t)(sizeof names / sizeof *names);
    snprintf(out, 96, "%s of %" PRId64 " bytes", known ? names[n->kind] : "something", n->bytes);
}

static bool is_same(const ipu__comm_note *a, const ipu__comm_note *b)
{
    return a->kind == b->kind && a->type == b->type && a->bytes == b->bytes && a->root == b->root;
}

/* Returns false if waiting for it is pointless. */
static bool judge(ipu__comm_end *end, int64_t peer, double waited)
{
    const ipu__comm_note *note = &end->peers[peer].last;
    char                  here[96], there[96];
    if (note->word == IPU__COMM_WAITS && note->job == end->now.job && !is_same(note, &end->now)) {
        describe(&end->now, here);
        describe(note, there);
        snprintf(end->message, sizeof end->message,
                 "rank %" PRId64 " waits for %s, rank %" PRId64
                 " for %s: all processes of a group make the same calls in the same order",
                 end->rank, here, peer, there);
        return false;
    }
    if (waited < fail_after) return true;
    if (note->word == IPU__COMM_WAITS
        && note->job > end->now.job) { /* it has sent everything it had to for this job */
        describe(&end->now, here);
        snprintf(end->message, sizeof end->message,
                 "rank %" PRId64 " waits for %s, its call %" PRId64 " of the group; rank %" PRId64
                 " is at its call %" PRId64
                 ": all processes of a group make the same calls in the same order",
                 end->rank, here, end->now.job, peer, note->job);
        return false;
    }
    if (note->word == IPU__COMM_LEFT)
        snprintf(end->message, sizeof end->message,
                 "rank %" PRId64 " has left the group while rank %" PRId64
                 " waits for it: it ended, or makes fewer runs",
                 peer, end->rank);
    if (note->word == IPU__COMM_FAILED)
        snprintf(end->message, sizeof end->message, "rank %" PRId64 " has failed: %s", peer, note->text);
    return note->word < IPU__COMM_LEFT;
}

bool ipu__comm_look_around(ipu__comm_end *end, ipu__comm_stall *s, const int64_t *peers, int n)
{
    double now = ipu__clock_seconds();
    if (s->since == 0) s->since = s->looked = now;
    if (now - s->looked < look_every) return true;
    s->looked = now;
    for (int i = 0; i < n; i++) {
        ipu__comm_peer *peer = &end->peers[peers[i]];
        take(end, peers[i]);
        if (now - s->since >= tell_after && peer->told != end->now.job) {
            peer->told = end->now.job;
            post(end, peers[i], IPU__COMM_WAITS);
        }
        if (!judge(end, peers[i], now - s->since)) return false;
    }
    return true;
}

void ipu__comm_break(ipu__comm_end *end)
{
    if (end->is_broken) return;
    end->is_broken = true;
    for (int64_t r = 0; r < end->size; r++)
        if (r != end->rank) post(end, r, IPU__COMM_FAILED);
}

/* Receives the others' last notes, since MPI requires all messages to be received, unless they take too
 * long. */
void ipu__comm_part(ipu__comm_end *end)
{
    double begin = ipu__clock_seconds();
    bool   all   = end->is_broken || end->now.job == 0;
    for (int64_t r = 0; !all && r < end->size; r++)
        if (r != end->rank) post(end, r, IPU__COMM_LEFT);
    while (!all && ipu__clock_seconds() - begin < part_within) {
        all = true;
        for (int64_t r = 0; r < end->size; r++) {
            if (r == end->rank) continue;
            take(end, r);
            all &= end->peers[r].last.word >= IPU__COMM_LEFT;
        }
        if (!all) ipu__comm_pause();
    }
}
