#include <ATen/DeviceAccelerator.h>

#include <cmath>
#include <fstream>

#include "support/errors.h"
#include "support/human.h"
#include "training/builtin_hooks.h"

namespace dimred::training {
namespace {

/// VmHWM of /proc; getrusage would count what another program had before it became this one.
std::int64_t peak_of_process() {
  constexpr std::int64_t kilobyte = 1024;
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("VmHWM:")) return kilobyte * std::stoll(line.substr(6));
  }
  return 0;
}

std::int64_t peak_of_device(const torch::Device& device) {
  if (device.is_cpu()) return 0;
  const auto stats = at::accelerator::getDeviceStats(device.index());
  return stats.allocated_bytes[0].peak;  // 0: of all kinds
}

class RunSummary final : public Hook {
 public:
  void end(const RunView& run) override {
    const auto& totals = run.position.totals;
    if (totals.seconds <= 0) return;
    const auto images = static_cast<double>(totals.images);
    const double waited = totals.data_wait_seconds;
    const auto memory = peak_memory(run.setup);
    const auto device =
        memory.device > 0 ? concat(", ", bytes_text(memory.device), " on the device") : "";
    run.console.line(concat(count_text(run.position.step),
                            " steps, ",
                            count_text(totals.images),
                            " images in ",
                            duration_text(totals.seconds),
                            ": ",
                            count_text(std::lround(images / totals.seconds)),
                            " images/s (",
                            count_text(std::lround(images / (totals.seconds - waited))),
                            " compute), ",
                            duration_text(waited),
                            " waited for data (",
                            std::lround(100 * waited / totals.seconds),
                            " %); peak memory ",
                            bytes_text(memory.process),
                            device));
  }
};

}  // namespace

PeakMemory peak_memory(const Setup& setup) {
  return {.process = peak_of_process(), .device = peak_of_device(setup.device)};
}

std::unique_ptr<Hook> make_run_summary() { return std::make_unique<RunSummary>(); }

}  // namespace dimred::training
