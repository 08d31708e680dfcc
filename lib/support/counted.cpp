#include "support/counted.h"

#include "support/formatted.h"

namespace dimred {

std::string counted(std::int64_t count, std::string_view noun, std::string_view plural) {
  if (count == 1) return formatted("1 {}", noun);
  return plural.empty() ? formatted("{} {}s", count_text(count), noun)
                        : formatted("{} {}", count_text(count), plural);
}

}  // namespace dimred
