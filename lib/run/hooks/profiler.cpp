#include <ATen/record_function.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/cuda.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>

#include "run/builtin_hooks.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/text.h"

namespace dimred::run {
namespace {

namespace fs = std::filesystem;
namespace profiler = torch::autograd::profiler;

fs::path trace_file(const fs::path& folder, std::int64_t step) {
  constexpr std::size_t digits = 8;
  return folder / formatted("trace_{}.json", padded(step, digits));
}

int traces_in(const fs::path& folder) {
  int count = 0;
  for (const auto& item : fs::directory_iterator(folder)) {
    const auto name = item.path().filename().string();
    if (name.starts_with("trace_") && name.ends_with(".json")) ++count;
  }
  return count;
}

/// Whether every bracket of a JSON text is closed: a text that is cut off leaves its outermost
/// open.
bool is_whole(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::int64_t depth = 0, opened = 0;
  bool quoted = false, escaped = false;
  for (std::istreambuf_iterator<char> at(in), end; at != end; ++at) {
    const char letter = *at;
    if (letter == '"' && !escaped) quoted = !quoted;
    escaped = letter == '\\' && !escaped;
    if (quoted) continue;
    const bool opens = letter == '{' || letter == '[', closes = letter == '}' || letter == ']';
    opened += opens;
    depth += opens - closes;
  }
  return opened > 0 && depth == 0 && !quoted;
}

class Profiler final : public Hook {
 public:
  Profiler(std::int64_t every, std::int64_t rank) : every_(every), rank_(rank) {}
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;
  ~Profiler() override {
    if (recording_) profiler::disableProfiler();  // a step that threw
  }

  void begin(const RunView& run) override {
    active_ = run.setup->communicator->rank() == rank_;
    if (!active_) return;
    traces_ = traces_in(run.folder->path());
    // Without a device kineto would print that it found none.
    if (run.setup->model.device.is_cpu()) ::setenv("KINETO_LOG_LEVEL", "5", /*overwrite=*/0);
  }

  void before_step(const RunView& run) override {
    const bool due = active_ && (run.position->step + 1) % every_ == 0 && traces_ < most_traces;
    if (due) start(run.setup->model.device);
  }

  void after_step(const RunView& run,
                  const StepSummary& /*step*/,
                  const models::Minibatch& /*batch*/) override {
    if (!recording_) return;
    if (run.setup->model.device.is_cuda())
      torch::cuda::synchronize(run.setup->model.device.index());
    const auto trace = profiler::disableProfiler();
    recording_ = false;
    write(*trace, trace_file(run.folder->path(), run.position->step));
    if (++traces_ == most_traces)
      run.console->line(
          formatted("the profiler has recorded {} traces and records no more", most_traces));
  }

 private:
  void start(const torch::Device& device) {
    using at::RecordScope;
    const profiler::ProfilerConfig config(profiler::ProfilerState::KINETO);
    std::set<profiler::ActivityType> activities{profiler::ActivityType::CPU};
    if (device.is_cuda()) activities.insert(profiler::ActivityType::CUDA);
    profiler::prepareProfiler(config, activities);
    profiler::enableProfiler(
        config,
        activities,
        {RecordScope::FUNCTION, RecordScope::BACKWARD_FUNCTION, RecordScope::USER_SCOPE});
    recording_ = true;
  }

  /// Under its name only when it is complete: torch does not say when it cannot write, and ends a
  /// trace with its name.
  static void write(profiler::ProfilerResult& trace, const fs::path& file) {
    const auto partial = file.string() + ".tmp";
    require_regular_or_absent(file);
    fs::remove(partial);  // a link there would be followed
    trace.save(partial);
    std::error_code failed;
    const bool whole = is_whole(partial);
    if (whole) fs::rename(partial, file, failed);
    if (whole && !failed) return;
    for (const auto* own : {"", ".tmp"})
      fs::remove(partial + own, failed);  // torch's while it writes
    fail_environment("[profile_every_n_iters] cannot write all of {}; is the disk full?", file);
  }

  std::int64_t every_, rank_;
  bool active_ = false, recording_ = false;
  int traces_ = 0;
};

}  // namespace

std::unique_ptr<Hook> make_profiler(std::int64_t every, std::int64_t rank) {
  return std::make_unique<Profiler>(every, rank);
}

}  // namespace dimred::run
