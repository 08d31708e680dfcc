// OpenBLAS starts a thread per core when its library is loaded, which then spin for work. Ours is
// private and used for matrices of n x n only: the linker sends its call to blas_thread_init here
// (-Wl,--wrap), so that the pool never exists and every call runs in the calling thread.
extern "C" {

extern int blas_cpu_number;  // of OpenBLAS; what it reads before it splits work

// NOLINTNEXTLINE(bugprone-reserved-identifier): the name is the linker's
int __wrap_blas_thread_init() {
  blas_cpu_number = 1;
  return 0;
}
}
