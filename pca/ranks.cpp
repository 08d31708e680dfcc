#include "pca/ranks.h"

#include "support/failure.h"

namespace dimred::pca {

void agree(const Ranks& ranks, const std::function<void()>& work) {
  if (ranks.size == 1) return work();
  for (const std::string& failure : ranks.gather(failure_of(work))) {
    if (!failure.empty()) throw_failure(failure);
  }
}

}  // namespace dimred::pca
