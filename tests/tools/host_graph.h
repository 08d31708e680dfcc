#pragma once

#include <functional>
#include <memory>
#include <stdexcept>

#include "engine/device/pass_graphs.h"

namespace dimred::engine {

/// Does at replay what it was given to record; or fails to record.
class HostGraph final : public DeviceGraph {
 public:
  HostGraph(int& replays, bool fails) : replays_(replays), fails_(fails) {}
  void record(const std::function<void()>& work) override {
    if (fails_) throw std::runtime_error("an operator waits for the device");
    work_ = work;
  }
  void replay() override {
    ++replays_;
    work_();
  }

 private:
  int& replays_;
  bool fails_;
  std::function<void()> work_;
};

inline std::shared_ptr<PassGraphs> host_graphs(int& replays, bool fails = false) {
  return std::make_shared<PassGraphs>(
      [&replays, fails] { return std::make_unique<HostGraph>(replays, fails); });
}

}  // namespace dimred::engine
