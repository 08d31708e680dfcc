#include <ATen/DeviceAccelerator.h>

#include <cmath>

#include "run/builtin_hooks.h"
#include "support/counted.h"
#include "support/formatted.h"
#include "support/peak_memory.h"

namespace dimred::run {
namespace {

std::int64_t peak_of_device(const torch::Device& device) {
  if (device.is_cpu()) return 0;
  const auto stats = at::accelerator::getDeviceStats(device.index());
  return stats.allocated_bytes[0].peak;  // 0: of all kinds
}

class RunSummary final : public Hook {
 public:
  void end(const RunView& run) override {
    const auto& totals = run.position->totals;
    if (totals.seconds <= 0) return;
    const double images = totals.images;
    const double waited = totals.data_wait_seconds;
    const auto memory = peak_memory(run.setup->model);
    const auto device =
        memory.device > 0 ? formatted(", {} on the device", bytes_text(memory.device)) : "";
    run.console->line(
        formatted("{}, {} in {}: {} images/s ({} compute), {} waited for data ({} %); peak memory "
                  "{}{}",
                  counted(run.position->step, "step"),
                  counted(totals.images, "image"),
                  duration_text(totals.seconds),
                  count_text(std::lround(images / totals.seconds)),
                  count_text(std::lround(images / (totals.seconds - waited))),
                  duration_text(waited),
                  std::lround(100 * waited / totals.seconds),
                  bytes_text(memory.process),
                  device));
  }
};

}  // namespace

PeakMemory peak_memory(const engine::Model& model) {
  return {.process = peak_memory_of_process(), .device = peak_of_device(model.device)};
}

std::unique_ptr<Hook> make_run_summary() { return std::make_unique<RunSummary>(); }

}  // namespace dimred::run
