#pragma once

#include <exception>
#include <utility>

namespace dimred {

/// Calls `undo` at the end of the scope, also when an exception leaves it. Then an exception of
/// `undo` is lost: the first error is what counts.
template <class Undo>
class ScopeExit {
 public:
  explicit ScopeExit(Undo undo) : undo_(std::move(undo)) {}
  ScopeExit(const ScopeExit&) = delete;
  ScopeExit& operator=(const ScopeExit&) = delete;
  ~ScopeExit() noexcept(false) {
    try {
      undo_();
    } catch (...) {
      if (std::uncaught_exceptions() == before_) throw;
    }
  }

 private:
  Undo undo_;
  int before_ = std::uncaught_exceptions();
};

}  // namespace dimred
