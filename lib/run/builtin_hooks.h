#pragma once

#include <cstdint>
#include <memory>

#include "run/hooks.h"

// The hooks that both stages have, made by add_hooks().
namespace dimred::run {

constexpr int most_traces = 10;  // of a run; one step of a large network is some MB

/// On rank `rank`: every step that is a multiple of `every` >= 1 is recorded by torch's profiler,
/// its wait for data included, as trace_STEP.json in the run folder: Chrome's trace format. After
/// most_traces in the folder it records no more, and says so.
std::unique_ptr<Hook> make_profiler(std::int64_t every, std::int64_t rank);

/// step_times.csv of rank 0: step, seconds, images_per_second (of all ranks), data_wait_seconds.
/// Written in blocks, complete before each state; a resumed run continues it. At the end a line
/// with the median. After TensorFlow's TimeHistory.
std::unique_ptr<Hook> make_time_history();

/// At the end one line: steps, images/s with and without waits, and memory.
std::unique_ptr<Hook> make_run_summary();

/// The greatest memory so far of this process, and of its tensors on the setup's device (0 on the
/// CPU), in bytes.
struct PeakMemory {
  std::int64_t process = 0, device = 0;
};
PeakMemory peak_memory(const engine::Model& model);

}  // namespace dimred::run
