#pragma once

#include <functional>

#include "stores/store.h"

namespace dimred::stores {

/// Seconds before attempt `made` + 1: first_wait 2^(made - 1), at most longest_wait, times `jitter`
/// in [0.5, 1], so that ranks with a common failure do not come back together.
double wait_before_next(const StoreOptions& options, std::int64_t made, double jitter);

/// Does `work` until it ends without Passing, store_attempts times at most; the last error says how
/// many there were. Whenever it has `reached` more than ever before, attempts are counted from 0
/// again.
void with_attempts(
    const Store& store,
    const std::function<void()>& work,
    const std::function<std::int64_t()>& reached = [] { return 0; });

/// Returns the answer of `question`, asked with such attempts.
template <class Question>
auto ask(const Store& store, Question question) {
  std::optional<decltype(question())> answer;
  with_attempts(store, [&] { answer.emplace(question()); });
  return *std::move(answer);
}

/// `look`, once more when it met what somebody was changing; the third time, Changed is thrown.
template <class Look>
auto looking_again(Look look) {
  for (int left = 2; left > 0; --left) {
    try {
      return look();
    } catch (const Changed&) {  // a listing between two uploads, say
    }
  }
  return look();
}

}  // namespace dimred::stores
