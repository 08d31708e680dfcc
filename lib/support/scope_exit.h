#pragma once

#include <exception>
#include <utility>

namespace dimred {

/// For a handler: says the exception that it handles in one line on standard error. That is the
/// second error, and ends here; the first one goes on.
void say_second_error() noexcept;

/// Calls `undo` while an error, or another outcome, is on its way, which an error of `undo` must
/// not replace: that is said.
template <class Undo>
void undo_after_error(const Undo& undo) noexcept {
  try {
    undo();
  } catch (...) {
    say_second_error();
  }
}

/// Calls `undo` at the end of the scope, also when an exception leaves it. Then an exception of
/// `undo` is said and lost: the first error is what counts.
template <class Undo>
class ScopeExit {
 public:
  explicit ScopeExit(Undo undo) : undo_(std::move(undo)) {}
  ScopeExit(const ScopeExit&) = delete;
  ScopeExit& operator=(const ScopeExit&) = delete;
  ~ScopeExit() noexcept(false) {
    if (std::uncaught_exceptions() == before_) {
      undo_();
    } else {
      undo_after_error(undo_);
    }
  }

 private:
  Undo undo_;
  int before_ = std::uncaught_exceptions();
};

}  // namespace dimred
