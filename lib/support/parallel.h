#pragma once

#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace dimred {

/// Calls work(i) for every i < count from up to `threads` threads (the caller's among them), in
/// ascending order of their beginnings. An exception ends the others' work at their next i; the one
/// of the lowest i is thrown again, which does not depend on the threads. std::runtime_error when a
/// thread cannot be started.
void in_parallel(std::int64_t count,
                 std::int64_t threads,
                 const std::function<void(std::int64_t)>& work);

/// Starts `count` threads; number i calls work(i): all or none. If one cannot start, `stop` has to
/// end the work of the others, they are joined, and std::runtime_error("[scope] cannot start thread
/// K of N: reason") is thrown.
std::vector<std::jthread> start_threads(const char* scope,
                                        std::int64_t count,
                                        const std::function<void(std::int64_t)>& work,
                                        const std::function<void()>& stop);

/// GOMP_SPINCOUNT of the trainers: how often a thread of OpenMP looks whether the others are done
/// before it sleeps. libgomp's own 300,000 looks burn the time of a core that another program
/// shares; after 1,000 looks, threads sleep within a step even on idle cores. Figures: docs/results
/// (experiments/benchmarks/busy_machine.py).
inline constexpr auto openmp_spin_count = "10000";

/// Gives what this process executes that many, unless the user has chosen a wait policy. Has no
/// effect once libgomp is loaded, which reads it then.
void share_cores();

/// Cores that this process may run on (its affinity mask, which a container or a launcher narrows),
/// at least 1.
std::int64_t available_threads();

}  // namespace dimred
