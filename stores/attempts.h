#pragma once

#include <functional>

#include "stores/store.h"

namespace dimred::stores {

/// Seconds before attempt `made` + 1: first_wait 2^(made - 1), at most longest_wait, times `jitter`
/// in [.5, 1], so that ranks that failed together do not come back together.
double wait_before_next(const StoreOptions& options, std::int64_t made, double jitter);

/// Does `work` until it ends without a passing StoreError, store_attempts times at most; the last
/// error says how many there were. While work says that it got further than ever before (`moved`),
/// attempts are counted anew.
void with_attempts(const StoreOptions& options,
                   const std::function<void()>& work,
                   const std::function<bool()>& moved = {});

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
