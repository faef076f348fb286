/* 25: processes: the same program in several of them, on one machine or many.
 *
 * Teaches groups (ipu/comm.h): who this process is, and a sum over all of them as a step of a program. It is begun,
 * other steps run meanwhile, and waited for. Started by itself a process is a group of one; then nobody is asked
 * and MPI need not be there. `poprun --num-instances 2 25_processes` and `mpirun -n 2 25_processes` start two, which
 * print their own line each, and the same sums.
 *
 * Expect:
 *     process 0 of 1
 *     sum: 1 2 3
 *     meanwhile: 49
 */
#include "example.h"

int main(void)
{
    ipu_comm  *comm;
    ipu_target target;
    ipu_graph *g;
    CHECK(ipu_comm_open(&comm));
    CHECK(ipu_target_find("gc200", 1, &target));
    CHECK(ipu_graph_create(&target, 1, &g));

    ipu_tensor x = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(3), "x");
    ipu_tensor y = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(1), "y");
    ipu_graph_map_linearly(g, x);
    ipu_graph_map_linearly(g, y);
    ipu_graph_add_host_write(g, "x", x);
    ipu_graph_add_host_read(g, "x", x);
    ipu_graph_add_host_read(g, "y", y);
    ipu_graph_set_initial_value(g, y, &(float){7});

    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_all_reduce(p, x);
    ipu_program_add_kernel(p, "square", NULL, 0, (ipu_tensor[]){y, y}, 2); /* x goes on its way meanwhile */
    ipu_program_add_all_reduce_wait(p);
    ipu_engine *e = example_engine(g, p);
    CHECK(ipu_engine_join(e, comm));

    float own = (float)ipu_comm_rank(comm) + 1, sum[3] = {own, 2 * own, 3 * own}, squared;
    CHECK(ipu_engine_write(e, "x", sum, sizeof sum));
    CHECK(ipu_engine_run(e, 0));
    CHECK(ipu_engine_read(e, "x", sum, sizeof sum));
    CHECK(ipu_engine_read(e, "y", &squared, sizeof squared));
    printf("process %d of %d\n", (int)ipu_comm_rank(comm), (int)ipu_comm_size(comm));
    printf("sum: %g %g %g\nmeanwhile: %g\n", sum[0], sum[1], sum[2], squared);
    float n = (float)ipu_comm_size(comm);
    EXPECT(sum[0] == n * (n + 1) / 2);

    ipu_engine_destroy(e);
    ipu_graph_destroy(g);
    ipu_comm_close(comm);
    return 0;
}
