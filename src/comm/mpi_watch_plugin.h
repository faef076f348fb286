/* Checks that the other processes still exist while MPI_Init waits for them. */
#ifndef IPU_COMM_MPI_WATCH_PLUGIN_H
#define IPU_COMM_MPI_WATCH_PLUGIN_H

#include <pthread.h>
#include <stdbool.h>

typedef struct ipu__mpi_watch {
    pthread_t       thread;
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    bool            is_running, over;
    const char     *job;
    int             expected; /* processes on this host */
    long            rank;
} ipu__mpi_watch;

/* Under Open MPI only. If some of the processes on this host have been gone for seconds, this one reports
 * it and exits. */
void ipu__mpi_watch_begin(ipu__mpi_watch *w);
void ipu__mpi_watch_end(ipu__mpi_watch *w);

#endif
