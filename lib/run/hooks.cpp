#include "run/hooks.h"

#include <algorithm>

namespace dimred::run {
namespace {

class StopWhen final : public Hook {
 public:
  explicit StopWhen(std::function<bool(const RunView&)> holds) : holds_(std::move(holds)) {}
  bool should_stop(const RunView& run) const override { return holds_(run); }

 private:
  std::function<bool(const RunView&)> holds_;
};

}  // namespace

void Hooks::add(std::unique_ptr<Hook> hook) {
  if (hook) hooks_.push_back(std::move(hook));
}
bool Hooks::should_stop(const RunView& run) const {
  return std::ranges::any_of(hooks_, [&](const auto& hook) { return hook->should_stop(run); });
}
std::unique_ptr<Hook> stop_when(std::function<bool(const RunView&)> holds) {
  return std::make_unique<StopWhen>(std::move(holds));
}

}  // namespace dimred::run
